#include "graph/append.h"

namespace gyrus {

std::vector<ValueId> append_graph(Graph& to, const Graph& part, const std::vector<ValueId>& inputs) {
  std::vector<ValueId> map(part.value_count(), kNoValue);
  for (size_t i = 0; i < part.inputs().size(); ++i) map[part.inputs()[i].value] = inputs.at(i);
  for (ValueId id = 0; id < part.value_count(); ++id)
    if (part.is_constant(id)) map[id] = to.add_constant("", part.value(id).constant);
  for (Node node : part.nodes()) {
    const std::vector<ValueId> old = node.outputs;
    for (ValueId& id : node.inputs)
      if (id != kNoValue) id = map.at(id);
    const std::vector<ValueId> made = to.add_node(std::move(node));
    for (size_t i = 0; i < made.size(); ++i) map[old[i]] = made[i];
  }
  std::vector<ValueId> outputs;
  for (const Port& port : part.outputs()) outputs.push_back(map.at(port.value));
  return outputs;
}

}  // namespace gyrus
