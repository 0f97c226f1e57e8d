// Ops without a kernel: operands become doubles, the op's reference computes, results are rounded.
#include <cstring>
#include <optional>

#include "cpu/kernel.h"
#include "ops/evaluate.h"

namespace gyrus::cpu {
namespace {

Tensor tensor_of(const TensorType& type, const std::byte* bytes) {
  Tensor tensor(type.dtype, type.shape);
  if (!tensor.data.empty()) std::memcpy(tensor.data.data(), bytes, tensor.data.size());
  return tensor;
}

}  // namespace

Prepared prepare_generic(const Graph& graph, const Node& node, const KernelOptions&) {
  std::vector<std::optional<TensorType>> inputs;
  std::vector<TensorType> outputs;
  for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? std::nullopt : std::optional(graph.type(id)));
  for (ValueId id : node.outputs) outputs.push_back(graph.type(id));
  Prepared made;
  made.kernel = "generic " + node.op;
  made.run = [node, inputs, outputs](const Places& at, ThreadPool&) {
    std::vector<Tensor> tensors(inputs.size());
    std::vector<const Tensor*> given(inputs.size(), nullptr);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      tensors[i] = tensor_of(*inputs[i], at.inputs[i]);
      given[i] = &tensors[i];
    }
    const std::vector<Tensor> results = evaluate(node, given, outputs);
    for (size_t i = 0; i < results.size(); ++i)
      if (!results[i].data.empty()) std::memcpy(at.outputs[i], results[i].data.data(), results[i].data.size());
  };
  return made;
}

}  // namespace gyrus::cpu
