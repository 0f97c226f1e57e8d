#include "ops/reshape.h"

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"shape"});
  Shape shape = node.attrs.integers("shape");
  const int64_t count = element_count(inputs[0].shape);
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& extent : shape) {
    if (extent == -1 && !open) {
      open = &extent;
    } else if (extent < 0) {
      fail(ErrorCode::InvalidGraph, node.op, "shape is ", to_string(shape),
           ", expected extents of 0 or more and at most one -1");
    } else {
      known = checked_mul(known, extent, "reshape");
    }
  }
  if (open && known == 0)
    fail(ErrorCode::InvalidGraph, node.op, "shape is ", to_string(shape), ": beside a 0, -1 could be anything");
  if (open ? count % known != 0 : count != known)
    fail(ErrorCode::InvalidGraph, node.op, "input ", to_string(inputs[0].shape), " has ", count,
         " elements, which do not fill ", to_string(shape));
  if (open) *open = count / known;
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

void reference(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  outputs[0].data = inputs[0]->data;
}

std::vector<Value> gradient(const Backward& back) { return {reshape(back.gradients[0], back.inputs[0].shape())}; }

}  // namespace

const OpDef kReshape = {
    .name = "reshape",
    .infer = infer,
    .reference = reference,
    .alias = true,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
