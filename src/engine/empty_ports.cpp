#include "engine/empty_ports.h"

namespace gyrus {
namespace {

bool is_empty(const Graph& graph, const Port& port) { return element_count(graph.type(port.value).shape) == 0; }

}  // namespace

EmptyPorts empty_ports(const Graph& graph) {
  EmptyPorts empty;
  for (const Port& port : graph.inputs())
    if (is_empty(graph, port)) empty.inputs.insert(port.name);
  for (const auto* ports : {&graph.outputs(), &graph.captures()})
    for (const Port& port : *ports)
      if (is_empty(graph, port)) empty.results[port.name] = graph.type(port.value);
  return empty;
}

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

}  // namespace gyrus
