#include "engine/program_plan.h"

#include "core/error.h"
#include "engine/empty_ports.h"
#include "graph/graph.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

std::map<std::string, DType> wide_results(const Graph& graph) {
  std::map<std::string, DType> wide;
  for (const auto* ports : {&graph.outputs(), &graph.captures()})
    for (const Port& port : *ports)
      if (is_wide(graph.type(port.value).dtype)) wide[port.name] = graph.type(port.value).dtype;
  return wide;
}

}  // namespace

ProgramPlan split_ports(const Graph& graph, Graph& whole) {
  ProgramPlan out;
  EmptyPorts empty = empty_ports(graph);
  out.empty_inputs = std::move(empty.inputs);
  out.empty_results = std::move(empty.results);
  const bool any = !out.empty_inputs.empty() || !out.empty_results.empty();
  whole = any ? without_empty_ports(graph) : graph;
  out.wide = wide_results(whole);
  return out;
}

Graph model_graph(const Model& model, const Shapes& shapes) {
  const size_t rank = static_cast<size_t>(model.spatial_rank) + 2;
  for (const auto& [name, shape] : shapes)
    if (name != "image") fail(ErrorCode::InvalidInput, name, model.name, " has no such input; it has: image");
  const auto image = shapes.find("image");
  if (image == shapes.end())
    fail(ErrorCode::InvalidInput, model.name, "takes images of any size: say the shape of \"image\", [1, ",
         model.input_channels, ", …]");
  const Shape& shape = image->second;
  if (shape.size() != rank || shape[0] != 1 || shape[1] != model.input_channels)
    fail(ErrorCode::InvalidInput, model.name, "takes \"image\" of [1, ", model.input_channels, ", and ",
         model.spatial_rank, " extents], not ", to_string(shape));
  return model.build(Shape(shape.begin() + 2, shape.end()));
}

}  // namespace gyrus
