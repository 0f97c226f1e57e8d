#include "ops/evaluate.h"

#include <cstring>

#include "ops/elementwise.h"

namespace gyrus {
namespace {

// A row over i32 or u32 by the bits of its operands.
Tensor evaluate_words(const Elementwise& row, const Tensor& a, const Tensor& b, const TensorType& type) {
  Tensor result(type.dtype, type.shape);
  const auto word = [](const Tensor& t, int64_t i) {
    uint32_t bits;
    std::memcpy(&bits, t.data.data() + 4 * i, sizeof bits);
    return bits;
  };
  int64_t i = 0;
  walk(type.shape, {broadcast_strides(a.shape, type.shape), broadcast_strides(b.shape, type.shape)}, {0, 0},
       [&](const std::vector<int64_t>& at) {
         const uint32_t bits = row.word(word(a, at[0]), word(b, at[1]));
         std::memcpy(result.data.data() + 4 * i++, &bits, sizeof bits);
       });
  return result;
}

}  // namespace

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
  const Elementwise* row = op(node.op).elementwise;
  if (row && row->word && (types[0].dtype == DType::I32 || types[0].dtype == DType::U32))
    return {evaluate_words(*row, *inputs[0], *inputs[1], types[0])};
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
