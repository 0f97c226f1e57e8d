#include <map>

#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/elementwise.h"
#include "passes/passes.h"

// Runs behind fuse_epilogues: a sum that a matmul can take into its body costs less there.

namespace gyrus {
namespace {

// x + y, both of the type of the result.
bool is_sum(const Graph& graph, const Node& node) {
  const Elementwise* row = op(node.op).elementwise;
  if (!row || row->arity != 2 || !row->as_affine || !node.body.empty()) return false;
  for (size_t k = 0; k < 2; ++k) {
    const std::optional<ScaleShift> line = row->as_affine(nullptr, k, 2);
    if (!line || line->scale != 1 || line->shift != 2) return false;
    if (graph.type(node.inputs[k]) != graph.type(node.outputs[0])) return false;
  }
  return node.inputs[0] != node.inputs[1];
}

// The node that makes the value, seen through ops that give its bytes another shape.
const Node* maker_of_bytes(const Rewriter& rewrite, ValueId id) {
  const Node* maker = rewrite.old_maker(id);
  while (maker && op(maker->op).alias) maker = rewrite.old_maker(maker->inputs[0]);
  return maker;
}

// The sum that the node can make itself, which is to happen where the sum stands: what else it reads must be there.
const Node* sum_of(const Rewriter& rewrite, const Node& node) {
  if (!op(node.op).with_residual || node.outputs.size() != 1) return nullptr;
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (rewrite.old_maker(node.inputs[i])) return nullptr;
  const Node* sum = maker_of_bytes(rewrite, node.inputs[0]);
  return sum && is_sum(rewrite.old(), *sum) ? sum : nullptr;
}

ValueId reshaped(Graph& graph, ValueId id, const Shape& shape, const std::string& label) {
  return graph.type(id).shape == shape ? id : graph.add("reshape", {id}, {{"shape", shape}}, label);
}

// Puts the node that adds and normalises in the place of the sum.
bool join(Rewriter& rewrite, const Node& sum, const Node& node) {
  Graph& graph = rewrite.graph();
  const Shape rows = rewrite.old().type(node.inputs[0]).shape, shape = rewrite.old().type(sum.outputs[0]).shape;
  Node copy = node;
  copy.inputs[0] = sum.inputs[0];
  copy = rewrite.mapped(copy);
  const ValueId x = reshaped(graph, copy.inputs[0], rows, sum.label);
  const ValueId residual = reshaped(graph, rewrite(sum.inputs[1]), rows, sum.label);
  const std::optional<Node> joined = op(node.op).with_residual(copy, x, residual);
  if (!joined) return false;
  const std::vector<ValueId> made = rewrite.add_for(node.outputs, *joined);
  rewrite.replace(sum.outputs[0], reshaped(graph, made.at(1), shape, sum.label));
  return true;
}

}  // namespace

Graph fuse_residual(const Graph& graph) {
  Rewriter rewrite(graph);
  std::map<const Node*, const Node*> readers;  // of a sum: the node that can make it
  for (const Node& node : graph.nodes())
    if (const Node* sum = sum_of(rewrite, node)) readers.try_emplace(sum, &node);
  std::map<const Node*, bool> done;
  for (const Node& node : graph.nodes()) {
    if (done[&node]) continue;
    const auto reader = readers.find(&node);
    if (reader != readers.end() && join(rewrite, node, *reader->second))
      done[reader->second] = true;
    else
      rewrite.copy(node);
  }
  return rewrite.finish("fuse_residual");
}

}  // namespace gyrus
