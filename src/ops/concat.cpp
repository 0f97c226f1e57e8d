#include "ops/concat.h"

#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, SIZE_MAX, {"axis"});
  Shape shape = inputs[0].shape;
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), shape.size());
  for (size_t i = 1; i < inputs.size(); ++i) {
    Shape other = inputs[i].shape;
    if (other.size() == shape.size()) {
      shape[axis] += other[axis];
      other[axis] = shape[axis];
    }
    if (other != shape)
      fail(ErrorCode::InvalidGraph, node.op, "input ", i, " is ", to_string(inputs[i].shape), " but input 0 is ",
           to_string(inputs[0].shape), ": expected equal extents on all axes but ", axis);
  }
  return {{common_dtype(node, inputs), shape, Layout::Plain}};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  RefTensor& out = outputs[0];
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), out.shape.size());
  const std::vector<int64_t> strides = strides_of(out.shape);
  int64_t first = 0;
  for (const RefTensor* input : inputs) {
    const double* in = input->data.data();
    walk(input->shape, {strides}, {first},
         [&](const std::vector<int64_t>& at) { out.data[static_cast<size_t>(at[0])] = *in++; });
    first += input->shape[axis] * strides[axis];
  }
}

}  // namespace

const OpDef kConcat = {
    .name = "concat",
    .family = KernelFamily::Movement,
    .infer = infer,
    .reference = reference,
    .flops = no_flops,
};

}  // namespace gyrus
