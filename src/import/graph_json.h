#pragma once
#include <map>
#include <string>

#include "gyrus/graph.h"
#include "import/json.h"

// Networks given as data, so that any language can build one to train.

namespace gyrus {

// The graph that `json` describes:
//
//   {"inputs": [{"name": "x", "dtype": "f32", "shape": [8, 3]}, …],
//    "parameters": ["w", …], "constants": ["mask", …],                  from `tensors`
//    "nodes": [{"op": "linear", "inputs": ["x", "w", null, 0.5], "attributes": {…}, "outputs": ["y"]}, …],
//    "outputs": {"y": "y", "loss": "loss"}, "captures": {…}}
//
// Operands are values by name, null where one is absent, or a number beside the first operand. Ops are those of
// docs/ops.md, and the functions of gyrus/nn.h and gyrus/losses.h by their names, with what they take in their order
// and options as attributes. Throws InvalidInput naming the node.
Graph graph_from_json(const Json& json, const std::map<std::string, Tensor>& tensors);

// One node of that kind: its results.
std::vector<Value> build_node(Graph& graph, const std::string& op, const std::vector<Value>& operands,
                              const Json& attributes);

}  // namespace gyrus
