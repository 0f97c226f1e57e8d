#pragma once
#include <map>
#include <optional>

#include "abi.h"
#include "engine/program_plan.h"
#include "import/onnx_import.h"

// Networks of any kind, and plans of graphs, as the entry points of programs and trainers have them.

namespace gyrus {

// An ONNX file, or a model of layers.
struct OpenNetwork {
  ModelFiles files;
  std::optional<onnx::ModelProto> onnx;  // refers to the files
  Model model;                           // where it is no ONNX file
  std::map<std::string, Tensor> bound;
};

// Takes the files over.
std::unique_ptr<OpenNetwork> open_network(ModelFiles files);
// What an ONNX network is imported with; refers to it.
onnx::ImportOptions import_options(const OpenNetwork& network, Shapes shapes);

// The graph for shapes and captures as types.ts's NetworkRequest says.
Graph graph_for(const OpenNetwork& network, const Json& request);

// Names and types: inputs and outputs as the caller sees them.
Json ports_json(const Graph& graph, const std::vector<Port>& ports);

// Plans a graph as types.ts's NetworkRequest says. Text: the plan, empty where no result has an element; data: its
// weights; about: the ports as the caller sees them.
void answer_with_plan(const Graph& graph, const Json& request);

}  // namespace gyrus
