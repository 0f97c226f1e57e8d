#include "ops/evaluate.h"

namespace gyrus {

RefTensor widen(const Tensor& tensor) {
  RefTensor wide{tensor.shape, std::vector<double>(static_cast<size_t>(tensor.size()))};
  for (int64_t i = 0; i < tensor.size(); ++i) wide.data[static_cast<size_t>(i)] = get(tensor, i);
  return wide;
}

Tensor narrow(const RefTensor& wide, DType dtype) {
  Tensor tensor(dtype, wide.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, wide.data[static_cast<size_t>(i)]);
  return tensor;
}

std::vector<Tensor> evaluate(const Node& node, const std::vector<const Tensor*>& inputs,
                             const std::vector<TensorType>& types) {
  std::vector<RefTensor> wide(inputs.size());
  std::vector<const RefTensor*> pointers(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    wide[i] = widen(*inputs[i]);
    pointers[i] = &wide[i];
  }
  std::vector<RefTensor> outputs;
  for (const TensorType& type : types)
    outputs.push_back({type.shape, std::vector<double>(static_cast<size_t>(element_count(type.shape)))});
  op(node.op).reference(node, pointers, outputs);
  std::vector<Tensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) results.push_back(narrow(outputs[i], types[i].dtype));
  return results;
}

}  // namespace gyrus
