#include "reference/reference.h"

#include "core/error.h"

namespace gyrus::reference {
namespace {

void check_input(const Port& port, const TensorType& type, const Tensor& tensor) {
  if (tensor.shape != type.shape || (tensor.dtype != type.dtype && !(is_float(tensor.dtype) && is_float(type.dtype))))
    fail(ErrorCode::InvalidInput, port.name, "given ", to_string(tensor.dtype), to_string(tensor.shape), ", expected ",
         to_string(type.dtype), to_string(type.shape));
}

std::vector<RefTensor> run_node(const Graph& graph, const Node& node, const std::vector<RefTensor>& values) {
  std::vector<const RefTensor*> inputs;
  for (ValueId id : node.inputs) inputs.push_back(&values[id]);
  std::vector<RefTensor> outputs;
  for (ValueId id : node.outputs) {
    const Shape& shape = graph.type(id).shape;
    outputs.push_back({shape, std::vector<double>(static_cast<size_t>(element_count(shape)), 0.0)});
  }
  op(node.op).reference(node, inputs, outputs);
  return outputs;
}

}  // namespace

std::map<std::string, RefTensor> run(const Graph& graph, const std::map<std::string, Tensor>& inputs) {
  std::vector<RefTensor> values(graph.value_count());
  for (const Port& port : graph.inputs()) {
    const auto it = inputs.find(port.name);
    if (it == inputs.end()) fail(ErrorCode::InvalidInput, port.name, "no tensor is given for this input of the graph");
    check_input(port, graph.type(port.value), it->second);
    values[port.value] = from_tensor(it->second);
  }
  if (inputs.size() != graph.inputs().size())
    fail(ErrorCode::InvalidInput, "reference", inputs.size(), " tensors given, but the graph has ",
         graph.inputs().size(), " inputs");
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) values[id] = from_tensor(graph.constant(id));

  std::vector<uint32_t> readers = use_counts(graph);
  for (const Node& node : graph.nodes()) {
    std::vector<RefTensor> results = run_node(graph, node, values);
    for (size_t i = 0; i < results.size(); ++i) values[node.outputs[i]] = std::move(results[i]);
    for (ValueId id : node.inputs)
      if (--readers[id] == 0) values[id] = {};
  }
  std::map<std::string, RefTensor> outputs;
  for (const Port& port : graph.outputs()) outputs[port.name] = values[port.value];
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
