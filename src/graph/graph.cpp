#include "graph/graph.h"

#include <utility>

#include "core/error.h"
#include "graph/op.h"

namespace gyrus {
namespace {

// Throws unless extents are 0 or more and their product is within bounds.
void check_extents(const TensorType& type, const std::string& subject) {
  for (int64_t extent : type.shape)
    if (extent < 0) fail(ErrorCode::InvalidGraph, subject, "shape ", to_string(type.shape), " has an extent below 0");
  element_count(type.shape);
}

}  // namespace

ValueId Graph::new_value(TensorType type, std::string name) {
  values_.push_back({std::move(type), std::move(name), nullptr});
  return static_cast<ValueId>(values_.size() - 1);
}

Value Graph::input(const std::string& name, DType dtype, const Shape& shape) {
  return {*this, add_input(name, {dtype, shape})};
}

Value Graph::constant(Tensor tensor, const std::string& name) { return {*this, add_constant(name, std::move(tensor))}; }

Value Graph::parameter(const std::string& name, Tensor start) {
  const TensorType type{start.dtype, start.shape};
  return {*this, add_state(name, type, std::make_shared<const Tensor>(std::move(start)))};
}

Value Graph::state(const std::string& name, DType dtype, const Shape& shape) {
  return {*this, add_state(name, {dtype, shape})};
}

Value Graph::argument(const std::string& name, DType dtype, double least, double most) {
  return {*this, add_argument(name, dtype, least, most)};
}

void Graph::update(Value state, Value next) { update(id_of(state, "update"), id_of(next, "update")); }
void Graph::output(const std::string& name, Value value) { add_output(name, id_of(value, name)); }
void Graph::capture(const std::string& name, Value value) { add_capture(name, id_of(value, name)); }

ValueId Graph::id_of(Value value, const std::string& subject) const {
  if (!value) fail(ErrorCode::InvalidGraph, subject, "a value is missing");
  if (&value.graph() != this) fail(ErrorCode::InvalidGraph, subject, "the value belongs to another graph");
  return value.id();
}

ValueId Graph::add_input(const std::string& name, TensorType type) {
  check_extents(type, name);
  const ValueId id = new_value(std::move(type), name);
  inputs_.push_back({name, id});
  return id;
}

ValueId Graph::add_constant(const std::string& name, Tensor tensor) {
  return add_constant(name, std::make_shared<const Tensor>(std::move(tensor)));
}

ValueId Graph::add_constant(const std::string& name, std::shared_ptr<const Tensor> tensor) {
  const TensorType type{tensor->dtype, tensor->shape, Layout::Plain};
  check_extents(type, name);
  const ValueId id = new_value(type, name);
  values_[id].constant = std::move(tensor);
  return id;
}

ValueId Graph::add(const std::string& op, const std::vector<ValueId>& inputs, Attrs attrs, std::string label) {
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  node.inputs = inputs;
  node.label = label.empty() ? label_ : std::move(label);
  return add_node(std::move(node)).front();
}

std::vector<ValueId> Graph::add_node(Node node) {
  const OpDef& def = gyrus::op(node.op);
  std::vector<TensorType> types;
  for (ValueId id : node.inputs) {
    if (id != kNoValue && id >= values_.size())
      fail(ErrorCode::InvalidGraph, node.op, "input %", id, " does not exist; the graph has ", values_.size(),
           " values");
    types.push_back(id == kNoValue ? TensorType{} : values_[id].type);
  }
  std::vector<TensorType> results = def.infer(node, types);
  node.outputs.clear();
  for (TensorType& result : results) {
    check_extents(result, node.op);
    node.outputs.push_back(new_value(std::move(result), {}));
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

ValueId Graph::add_state(const std::string& name, TensorType type, std::shared_ptr<const Tensor> start) {
  const ValueId id = add_input(name, std::move(type));
  inputs_.pop_back();
  states_.push_back({name, id, std::move(start), kNoValue});
  return id;
}

void Graph::update(ValueId state, ValueId next) {
  for (State& s : states_) {
    if (s.value != state) continue;
    if (s.next != kNoValue) fail(ErrorCode::InvalidGraph, s.name, "the state is updated twice");
    const TensorType &is = type(state), &becomes = type(next);
    if (becomes.shape != is.shape || becomes.dtype != is.dtype)
      fail(ErrorCode::InvalidGraph, s.name, "the state is ", to_string(is.dtype), to_string(is.shape),
           " and cannot become ", to_string(becomes.dtype), to_string(becomes.shape));
    s.next = next;
    return;
  }
  fail(ErrorCode::InvalidGraph, "update", "value %", state, " is not a state");
}

void Graph::set_next(ValueId state, ValueId next) {
  for (State& s : states_)
    if (s.value == state) s.next = kNoValue;
  if (next != kNoValue) update(state, next);
}

ValueId Graph::add_argument(const std::string& name, DType dtype, double least, double most) {
  const ValueId id = add_input(name, {dtype, {}, Layout::Plain});
  inputs_.pop_back();
  arguments_.push_back({name, id, least, most});
  return id;
}

void Graph::add_capture(const std::string& name, ValueId value) { captures_.push_back({name, value}); }

void Graph::add_output(const std::string& name, ValueId value) { outputs_.push_back({name, value}); }

const Tensor& Graph::constant(ValueId id) const {
  const ValueInfo& v = value(id);
  if (!v.constant) fail(ErrorCode::InvalidGraph, "graph", "value %", id, " '", v.name, "' is not a constant");
  return *v.constant;
}

std::vector<ValueId> results(const Graph& graph) {
  std::vector<ValueId> ids;
  for (const auto* ports : {&graph.outputs(), &graph.captures()})
    for (const Port& port : *ports) ids.push_back(port.value);
  for (const State& state : graph.states())
    if (state.next != kNoValue) ids.push_back(state.next);
  return ids;
}

void copy_sources(const Graph& from, Graph& to, std::vector<ValueId>& map) {
  for (const Port& port : from.inputs()) map[port.value] = to.add_input(port.name, from.type(port.value));
  for (const State& state : from.states())
    map[state.value] = to.add_state(state.name, from.type(state.value), state.start);
  for (const Argument& a : from.arguments())
    map[a.value] = to.add_argument(a.name, from.type(a.value).dtype, a.least, a.most);
}

void copy_results(const Graph& from, Graph& to, const std::function<ValueId(ValueId)>& map) {
  for (const Port& port : from.outputs()) to.add_output(port.name, map(port.value));
  for (const Port& port : from.captures()) to.add_capture(port.name, map(port.value));
  for (size_t i = 0; i < from.states().size(); ++i)
    if (from.states()[i].next != kNoValue) to.update(to.states()[i].value, map(from.states()[i].next));
}

std::vector<uint32_t> use_counts(const Graph& graph) {
  std::vector<uint32_t> counts(graph.value_count(), 0);
  for (const Node& node : graph.nodes())
    for (ValueId id : node.inputs)
      if (id != kNoValue) ++counts.at(id);
  for (ValueId id : results(graph)) ++counts.at(id);
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
  for (ValueId id : results(graph)) live.at(id) = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    for (ValueId id : node.outputs) keep[i] = keep[i] || live.at(id);
    if (keep[i])
      for (ValueId id : node.inputs)
        if (id != kNoValue) live.at(id) = true;
  }

  Graph result;
  std::vector<ValueId> renamed(graph.value_count(), kNoValue);
  copy_sources(graph, result, renamed);
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const ValueInfo& value = graph.value(id);
    if (!value.constant || !live[id]) continue;
    renamed[id] = result.add_constant(value.name, value.constant);
    result.set_type(renamed[id], value.type);
  }
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!keep[i]) continue;
    Node node = graph.nodes()[i];
    for (ValueId& id : node.inputs)
      if (id != kNoValue) id = renamed.at(id);
    const std::vector<ValueId> old = node.outputs;
    const std::vector<ValueId> made = result.add_node(std::move(node));
    for (size_t j = 0; j < made.size(); ++j) {
      renamed[old[j]] = made[j];
      result.set_type(made[j], graph.type(old[j]));  // layout and precision were assigned by passes
      result.set_name(made[j], graph.value(old[j]).name);
    }
  }
  copy_results(graph, result, [&](ValueId id) { return renamed.at(id); });
  return result;
}

}  // namespace gyrus
