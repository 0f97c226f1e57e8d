#include "graph/graph.h"

#include <utility>

#include "core/error.h"
#include "graph/op.h"

namespace gyrus {
namespace {

void expect_positive(const TensorType& type, const std::string& subject) {
  for (int64_t extent : type.shape)
    if (extent < 1)
      fail(ErrorCode::InvalidGraph, subject, "shape ", to_string(type.shape),
           " has an extent below 1; empty tensors are not supported");
  element_count(type.shape);
}

}  // namespace

ValueId Graph::new_value(TensorType type, std::string name) {
  values_.push_back({std::move(type), std::move(name), nullptr});
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::add_input(const std::string& name, TensorType type) {
  expect_positive(type, name);
  const ValueId id = new_value(std::move(type), name);
  inputs_.push_back({name, id});
  return id;
}

ValueId Graph::add_constant(const std::string& name, Tensor tensor) {
  return add_constant(name, std::make_shared<const Tensor>(std::move(tensor)));
}

ValueId Graph::add_constant(const std::string& name, std::shared_ptr<const Tensor> tensor) {
  const TensorType type{tensor->dtype, tensor->shape, Layout::Plain};
  expect_positive(type, name);
  const ValueId id = new_value(type, name);
  values_[id].constant = std::move(tensor);
  return id;
}

ValueId Graph::add(const std::string& op, const std::vector<ValueId>& inputs, Attrs attrs, std::string label) {
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.inputs = inputs;
  node.label = std::move(label);
  return add_node(std::move(node)).front();
}

std::vector<ValueId> Graph::add_node(Node node) {
  const OpDef& def = gyrus::op(node.op);
  std::vector<TensorType> types;
  for (ValueId id : node.inputs) {
    if (id >= values_.size())
      fail(ErrorCode::InvalidGraph, node.op, "input %", id, " does not exist; the graph has ", values_.size(),
           " values");
    types.push_back(values_[id].type);
  }
  std::vector<TensorType> results = def.infer(node, types);
  node.outputs.clear();
  for (TensorType& result : results) {
    expect_positive(result, node.op);
    node.outputs.push_back(new_value(std::move(result), {}));
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

void Graph::add_output(const std::string& name, ValueId value) { outputs_.push_back({name, value}); }

const Tensor& Graph::constant(ValueId id) const {
  const Value& v = value(id);
  if (!v.constant) fail(ErrorCode::InvalidGraph, "graph", "value %", id, " '", v.name, "' is not a constant");
  return *v.constant;
}

std::vector<uint32_t> use_counts(const Graph& graph) {
  std::vector<uint32_t> counts(graph.value_count(), 0);
  for (const Node& node : graph.nodes())
    for (ValueId id : node.inputs) ++counts.at(id);
  for (const Port& port : graph.outputs()) ++counts.at(port.value);
  return counts;
}

std::vector<int64_t> producers(const Graph& graph) {
  std::vector<int64_t> makers(graph.value_count(), -1);
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    for (ValueId id : graph.nodes()[i].outputs) makers.at(id) = static_cast<int64_t>(i);
  return makers;
}

Graph without_dead_nodes(const Graph& graph) {
  std::vector<bool> live(graph.value_count(), false);
  std::vector<bool> keep(graph.nodes().size(), false);
  for (const Port& port : graph.outputs()) live.at(port.value) = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    for (ValueId id : node.outputs) keep[i] = keep[i] || live.at(id);
    if (keep[i])
      for (ValueId id : node.inputs) live.at(id) = true;
  }

  Graph result;
  std::vector<ValueId> renamed(graph.value_count(), kNoValue);
  for (const Port& port : graph.inputs()) renamed[port.value] = result.add_input(port.name, graph.type(port.value));
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (!value.constant || !live[id]) continue;
    renamed[id] = result.add_constant(value.name, value.constant);
    result.set_type(renamed[id], value.type);
  }
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!keep[i]) continue;
    Node node = graph.nodes()[i];
    for (ValueId& id : node.inputs) id = renamed.at(id);
    const std::vector<ValueId> old = node.outputs;
    const std::vector<ValueId> made = result.add_node(std::move(node));
    for (size_t j = 0; j < made.size(); ++j) {
      renamed[old[j]] = made[j];
      result.set_type(made[j], graph.type(old[j]));  // layout and precision were assigned by passes
      result.set_name(made[j], graph.value(old[j]).name);
    }
  }
  for (const Port& port : graph.outputs()) result.add_output(port.name, renamed.at(port.value));
  return result;
}

}  // namespace gyrus
