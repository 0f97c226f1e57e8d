#include "ops/update_slice.h"

#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

size_t axis_of(const Node& node, const Shape& base) {
  return checked_axis(node, node.attrs.integer("axis", 0), base.size());
}

void check_start(const Node& node, const TensorType& start) {
  if (node.attrs.has("start"))
    fail(ErrorCode::InvalidGraph, node.op, "has start both as an attribute and as an operand; give one");
  const bool integer = start.dtype == DType::I32 || start.dtype == DType::U32 || start.dtype == DType::I64;
  if (!integer || element_count(start.shape) != 1)
    fail(ErrorCode::InvalidGraph, node.op, "start is ", to_string(start.dtype), to_string(start.shape),
         ", expected one i32 or u32");
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 3, {"axis", "start"});
  const Shape &base = inputs[0].shape, &value = inputs[1].shape;
  const size_t axis = axis_of(node, base);
  Shape expected = base;
  if (value.size() == base.size()) expected[axis] = value[axis];
  if (value != expected || inputs[0].dtype != inputs[1].dtype || value[axis] > base[axis])
    fail(ErrorCode::InvalidGraph, node.op, "value is ", to_string(inputs[1].dtype), to_string(value), " but base is ",
         to_string(inputs[0].dtype), to_string(base), ": expected the same but along axis ", axis,
         ", and not more there");
  if (has_input(node, inputs, 2)) {
    check_start(node, inputs[2]);
  } else {
    const int64_t start = node.attrs.integer("start", 0);
    if (start < 0 || start > base[axis] - value[axis])
      fail(ErrorCode::InvalidGraph, node.op, "start is ", start, ", expected 0 to ", base[axis] - value[axis]);
  }
  return {{inputs[0].dtype, base, Layout::Plain}};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &base = *inputs[0], &value = *inputs[1];
  const size_t axis = axis_of(node, base.shape);
  const int64_t start =
      has_input(inputs, 2) ? static_cast<int64_t>(inputs[2]->data[0]) : node.attrs.integer("start", 0);
  const int64_t most = base.shape[axis] - value.shape[axis];
  if (start < 0 || start > most)
    fail(ErrorCode::InvalidInput, node.label.empty() ? node.op : node.label, "start is ", start, ", expected 0 to ",
         most);
  RefTensor& out = outputs[0];
  out.data = base.data;
  const std::vector<int64_t> strides = strides_of(base.shape);
  const double* from = value.data.data();
  walk(value.shape, {strides}, {start * strides[axis]},
       [&](const std::vector<int64_t>& at) { out.data[static_cast<size_t>(at[0])] = *from++; });
}

std::vector<Value> gradient(const Backward& back) {
  const Value g = back.gradients[0], value = back.inputs[1];
  const size_t axis = axis_of(back.node, g.shape());
  const auto along = static_cast<int64_t>(axis);
  const int64_t count = value.shape()[axis];
  std::vector<Value> gradients(back.inputs.size());
  if (back.inputs.size() > 2) {
    const Value start = reshape(cast(back.inputs[2], DType::I32), {1});
    if (back.wanted[0]) gradients[0] = update_slice(g, zeros(value, value.shape()), along, back.inputs[2]);
    if (back.wanted[1]) gradients[1] = gather(g, start + counted(g.graph(), count), along);
    return gradients;
  }
  const int64_t start = back.node.attrs.integer("start", 0);
  if (back.wanted[0]) gradients[0] = update_slice(g, zeros(value, value.shape()), along, start);
  if (back.wanted[1]) gradients[1] = slice_of(g, axis, start, start + count);
  return gradients;
}

}  // namespace

const OpDef kUpdateSlice = {
    .name = "update_slice",
    .infer = infer,
    .reference = reference,
    .in_place = InPlace::First,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
