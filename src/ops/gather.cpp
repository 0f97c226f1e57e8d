#include "ops/gather.h"

#include <algorithm>

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

size_t axis_of(const Node& node, const Shape& data) {
  return checked_axis(node, node.attrs.integer("axis", 0), data.size());
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"axis"});
  const Shape &data = inputs[0].shape, &indices = inputs[1].shape;
  const DType dtype = inputs[1].dtype;
  if (dtype != DType::I32 && dtype != DType::U32 && dtype != DType::I64)
    fail(ErrorCode::Unsupported, node.op, "indices are ", to_string(dtype), ", expected i32 or u32; add a cast");
  const size_t axis = axis_of(node, data);
  if (data[axis] == 0 && element_count(indices) > 0)
    fail(ErrorCode::InvalidGraph, node.op, "axis ", axis, " of ", to_string(data), " has no elements to choose from");
  const auto at = data.begin() + static_cast<std::ptrdiff_t>(axis);
  Shape shape(data.begin(), at);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), at + 1, data.end());
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &data = *inputs[0], &indices = *inputs[1];
  if (outputs[0].data.empty()) return;
  const size_t axis = axis_of(node, data.shape);
  const int64_t extent = data.shape[axis], inner = strides_of(data.shape)[axis];
  const int64_t outer = element_count(data.shape) / (extent * inner);
  double* out = outputs[0].data.data();
  for (int64_t o = 0; o < outer; ++o)
    for (const double given : indices.data) {
      const int64_t index = static_cast<int64_t>(given) + (given < 0 ? extent : 0);
      if (index < 0 || index >= extent)
        fail(ErrorCode::InvalidInput, node.label.empty() ? node.op : node.label, "index ", given,
             " is outside an axis of ", extent);
      const double* from = data.data.data() + (o * extent + index) * inner;
      for (int64_t i = 0; i < inner; ++i) *out++ = from[i];
    }
}

// Rows of the gradient are added where they were taken from, with the gathered axis in front.
std::vector<Value> gradient(const Backward& back) {
  const Value data = back.inputs[0];
  const Shape shape = data.shape(), indices = back.inputs[1].shape();
  const size_t axis = axis_of(back.node, shape);
  std::vector<int64_t> forth, back_perm = {};
  const size_t rank = back.gradients[0].shape().size();
  for (size_t a = 0; a < indices.size(); ++a) forth.push_back(static_cast<int64_t>(axis + a));
  for (size_t a = 0; a < rank; ++a)
    if (a < axis || a >= axis + indices.size()) forth.push_back(static_cast<int64_t>(a));
  Shape turned = {shape[axis]};
  for (size_t a = 0; a < shape.size(); ++a) {
    if (a != axis) turned.push_back(shape[a]);
    back_perm.push_back(a < axis ? static_cast<int64_t>(a) + 1 : a == axis ? 0 : static_cast<int64_t>(a));
  }
  const int64_t inner = element_count(shape) / std::max<int64_t>(1, shape[axis]);
  const Value given = cast(reshape(back.inputs[1], {-1}), DType::I32);
  const Value rows = where(less(given, scalar(given, 0)), given + static_cast<double>(shape[axis]), given);
  const Value updates = reshape(transpose(back.gradients[0], forth), {element_count(indices), inner});
  const Value summed =
      apply("scatter_rows", {zeros(data, {shape[axis], inner}), rows, updates}, {{"reduction", "add"}});
  return {transpose(reshape(summed, turned), back_perm), {}};
}

}  // namespace

const OpDef kGather = {
    .name = "gather",
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
