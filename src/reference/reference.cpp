#include "reference/reference.h"

#include "core/error.h"

namespace gyrus::reference {
namespace {

RefTensor given(const Graph& graph, const std::map<std::string, Tensor>& inputs, const std::string& name, ValueId id) {
  const auto it = inputs.find(name);
  if (it == inputs.end()) fail(ErrorCode::InvalidInput, name, "no tensor is given for this input of the graph");
  const Tensor& tensor = it->second;
  const TensorType& type = graph.type(id);
  if (tensor.shape != type.shape || (tensor.dtype != type.dtype && !(is_float(tensor.dtype) && is_float(type.dtype))))
    fail(ErrorCode::InvalidInput, name, "given ", to_string(tensor.dtype), to_string(tensor.shape), ", expected ",
         to_string(type.dtype), to_string(type.shape));
  return from_tensor(tensor);
}

RefTensor before(const Graph& graph, const State& state, const States& states) {
  const auto known = states.find(state.name);
  if (known != states.end()) return known->second;
  const TensorType& type = graph.type(state.value);
  return from_tensor(state.start ? *state.start : Tensor(type.dtype, type.shape));
}

}  // namespace

std::vector<RefTensor> run_node(const Graph& graph, const Node& node, const std::vector<const RefTensor*>& inputs) {
  std::vector<RefTensor> outputs;
  for (ValueId id : node.outputs) {
    const Shape& shape = graph.type(id).shape;
    outputs.push_back({shape, std::vector<double>(static_cast<size_t>(element_count(shape)), 0.0)});
  }
  op(node.op).reference(node, inputs, outputs);
  return outputs;
}

std::map<std::string, RefTensor> run(const Graph& graph, const std::map<std::string, Tensor>& inputs) {
  States states;
  return run(graph, inputs, states);
}

std::map<std::string, RefTensor> run(const Graph& graph, const std::map<std::string, Tensor>& inputs, States& states) {
  std::vector<RefTensor> values(graph.value_count());
  for (const Port& port : graph.inputs()) values[port.value] = given(graph, inputs, port.name, port.value);
  for (const Argument& a : graph.arguments()) values[a.value] = given(graph, inputs, a.name, a.value);
  for (const State& state : graph.states()) values[state.value] = before(graph, state, states);
  const size_t expected = graph.inputs().size() + graph.arguments().size();
  if (inputs.size() != expected)
    fail(ErrorCode::InvalidInput, "reference", inputs.size(), " tensors given, but the graph has ", expected,
         " inputs and arguments");
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) values[id] = from_tensor(graph.constant(id));

  std::vector<uint32_t> readers = use_counts(graph);
  for (const Node& node : graph.nodes()) {
    std::vector<const RefTensor*> operands;
    for (ValueId id : node.inputs) operands.push_back(id == kNoValue ? nullptr : &values[id]);
    std::vector<RefTensor> results = run_node(graph, node, operands);
    for (size_t i = 0; i < results.size(); ++i) values[node.outputs[i]] = std::move(results[i]);
    for (ValueId id : node.inputs)
      if (id != kNoValue && --readers[id] == 0) values[id] = {};
  }
  std::map<std::string, RefTensor> outputs;
  for (const auto* ports : {&graph.outputs(), &graph.captures()})
    for (const Port& port : *ports) outputs[port.name] = values[port.value];
  for (const State& state : graph.states())
    states[state.name] = state.next == kNoValue ? before(graph, state, states) : values[state.next];
  return outputs;
}

Tensor to_tensor(const RefTensor& values, DType dtype) {
  Tensor tensor(dtype, values.shape);
  for (size_t i = 0; i < values.data.size(); ++i) set(tensor, static_cast<int64_t>(i), values.data[i]);
  return tensor;
}

RefTensor from_tensor(const Tensor& tensor) {
  RefTensor values{tensor.shape, std::vector<double>(static_cast<size_t>(tensor.size()))};
  for (size_t i = 0; i < values.data.size(); ++i) values.data[i] = get(tensor, static_cast<int64_t>(i));
  return values;
}

}  // namespace gyrus::reference
