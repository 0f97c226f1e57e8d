#include "ops/expand.h"

#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"shape"});
  const Shape& shape = node.attrs.integers("shape");
  for (int64_t extent : shape)
    if (extent < 1)
      fail(ErrorCode::InvalidGraph, node.op, "shape is ", to_string(shape), ", expected positive extents");
  if (broadcast(node, inputs[0].shape, shape) != shape)
    fail(ErrorCode::InvalidGraph, node.op, "input ", to_string(inputs[0].shape), " does not broadcast to ",
         to_string(shape));
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

void reference(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const std::vector<int64_t> strides = broadcast_strides(inputs[0]->shape, outputs[0].shape);
  double* out = outputs[0].data.data();
  walk(outputs[0].shape, {strides}, {0},
       [&](const std::vector<int64_t>& at) { *out++ = inputs[0]->data[static_cast<size_t>(at[0])]; });
}

}  // namespace

const OpDef kExpand = {
    .name = "expand",
    .family = KernelFamily::Movement,
    .infer = infer,
    .reference = reference,
    .flops = no_flops,
};

}  // namespace gyrus
