#include "engine/program_plan.h"

#include "core/error.h"
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

bool is_empty(const Graph& graph, const Port& port) { return element_count(graph.type(port.value).shape) == 0; }

// Inputs without elements become constants, results without them go away: no buffer can hold either.
Graph without_empty_ports(const Graph& graph) {
  Graph result;
  std::vector<ValueId> map(graph.value_count(), kNoValue);
  for (const Port& port : graph.inputs()) {
    const TensorType& type = graph.type(port.value);
    map[port.value] = is_empty(graph, port) ? result.add_constant(port.name, Tensor(type.dtype, type.shape))
                                            : result.add_input(port.name, type);
  }
  for (const State& state : graph.states())
    map[state.value] = result.add_state(state.name, graph.type(state.value), state.start);
  for (const Argument& a : graph.arguments())
    map[a.value] = result.add_argument(a.name, graph.type(a.value).dtype, a.least, a.most);
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) map[id] = result.add_constant(graph.value(id).name, graph.value(id).constant);
  for (const Node& node : graph.nodes()) {
    Node copy = node;
    for (ValueId& id : copy.inputs) id = id == kNoValue ? kNoValue : map[id];
    const std::vector<ValueId> made = result.add_node(std::move(copy));
    for (size_t i = 0; i < made.size(); ++i) map[node.outputs[i]] = made[i];
  }
  for (const Port& port : graph.outputs())
    if (!is_empty(graph, port)) result.add_output(port.name, map[port.value]);
  for (const Port& port : graph.captures())
    if (!is_empty(graph, port)) result.add_capture(port.name, map[port.value]);
  for (const State& state : graph.states())
    if (state.next != kNoValue) result.update(map[state.value], map[state.next]);
  return result;
}

}  // namespace

ProgramPlan plan_program(const Graph& graph, const Target& target, Precision precision, const PlanOptions& options) {
  ProgramPlan out;
  for (const Port& port : graph.inputs())
    if (is_empty(graph, port)) out.empty_inputs.insert(port.name);
  for (const auto* ports : {&graph.outputs(), &graph.captures()})
    for (const Port& port : *ports)
      if (is_empty(graph, port)) out.empty_results[port.name] = graph.type(port.value);
  const bool any = !out.empty_inputs.empty() || !out.empty_results.empty();
  const Graph whole = any ? without_empty_ports(graph) : graph;
  if (results(whole).empty()) return out;
  out.wide = wide_results(whole);
  out.plan = make_plan(optimize(whole, precision), target, options);
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
