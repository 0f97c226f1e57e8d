#include "core/error.h"
#include "ops/common.h"
#include "ops/elementwise.h"
#include "ops/pad.h"
#include "ops/slice.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// "offset + c0 * s0 + …" in wrapping u32 arithmetic, so that a negative offset is right once the sum is.
std::string strided(const std::vector<int64_t>& strides, int64_t offset) {
  std::string index = cat(static_cast<uint32_t>(offset), "u");
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (strides[axis] != 0) index += cat(" + c", axis, " * ", strides[axis], "u");
  return index;
}

// Coordinates of each axis within [lo, hi); empty where that is always so.
std::string within(const std::vector<int64_t>& lo, const std::vector<int64_t>& hi, const Shape& shape) {
  std::string valid;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (lo[axis] > 0) valid += cat(valid.empty() ? "" : " && ", "c", axis, " >= ", lo[axis], "u");
    if (hi[axis] < shape[axis]) valid += cat(valid.empty() ? "" : " && ", "c", axis, " < ", hi[axis], "u");
  }
  return valid;
}

MapSpec movement(Lowering& lowering, const Node& node) {
  MapSpec spec;
  spec.name = node.op;
  spec.label = label_of(node);
  spec.dims = lowering.graph().type(node.outputs[0]).shape;
  spec.result = "x";
  return spec;
}

MapOperand operand(Lowering& lowering, ValueId id, std::string index) {
  MapOperand made;
  made.storage = lowering.storage(id);
  made.name = "x";
  made.index = std::move(index);
  return made;
}

void lower_concat(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const Shape& out = graph.type(node.outputs[0]).shape;
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), out.size());
  MapSpec spec = movement(lowering, node);
  spec.out = lowering.make_storage(node.outputs[0], node);
  int64_t start = 0;
  // One part after another: each writes the elements that are its own and leaves the rest as they are.
  for (ValueId id : node.inputs) {
    const Shape& shape = graph.type(id).shape;
    const std::vector<int64_t> strides = strides_of(shape);
    std::vector<int64_t> lo(out.size(), 0);
    std::vector<int64_t> hi = out;
    lo[axis] = start;
    hi[axis] = start + shape[axis];
    start += shape[axis];
    if (element_count(shape) == 0) continue;
    MapOperand part = operand(lowering, id, strided(strides, -lo[axis] * strides[axis]));
    part.valid = within(lo, hi, out);
    spec.operands = {part};
    emit_map(lowering, spec);
  }
}

}  // namespace

void lower_movement(Lowering& lowering, const Node& node) {
  if (node.op == "concat") return lower_concat(lowering, node);
  const Graph& graph = lowering.graph();
  const Shape& in = graph.type(node.inputs[0]).shape;
  const Shape& out = graph.type(node.outputs[0]).shape;
  const std::vector<int64_t> strides = strides_of(in);
  MapSpec spec = movement(lowering, node);
  spec.out = lowering.make_storage(node.outputs[0], node);
  if (element_count(out) == 0) return;
  if (node.op == "transpose") {
    std::vector<int64_t> moved;
    for (int64_t axis : node.attrs.integers("perm")) moved.push_back(strides[checked_axis(node, axis, in.size())]);
    spec.operands = {operand(lowering, node.inputs[0], strided(moved, 0))};
  } else if (node.op == "expand") {
    spec.operands = {operand(lowering, node.inputs[0], strided(broadcast_strides(in, out), 0))};
  } else if (node.op == "slice") {
    const SliceAttrs attrs = slice_attrs(node, in);
    std::vector<int64_t> stepped = strides;
    int64_t offset = 0;
    for (size_t axis = 0; axis < in.size(); ++axis) {
      stepped[axis] *= attrs.steps[axis];
      offset += attrs.starts[axis] * strides[axis];
    }
    spec.operands = {operand(lowering, node.inputs[0], strided(stepped, offset))};
  } else if (node.op == "pad") {
    const PadAttrs attrs = pad_attrs(node, in.size());
    std::vector<int64_t> hi = attrs.lo;
    int64_t offset = 0;
    for (size_t axis = 0; axis < in.size(); ++axis) {
      hi[axis] += in[axis];
      offset -= attrs.lo[axis] * strides[axis];
    }
    MapOperand source = operand(lowering, node.inputs[0], strided(strides, offset));
    source.valid = within(attrs.lo, hi, out);
    source.fill = wgsl_number(attrs.value);
    spec.operands = {source};
  } else {
    fail(ErrorCode::Unsupported, node.op, "no kernel moves data this way");
  }
  emit_map(lowering, spec);
}

void lower_repack(Lowering& lowering, const Node& node) {
  const Graph& graph = lowering.graph();
  const TensorType& from = graph.type(node.inputs[0]);
  const TensorType& to = graph.type(node.outputs[0]);
  const int64_t channels = from.shape[1];
  const int64_t quads = ceil_div(channels, 4);
  const int64_t spatial = element_count(Shape(from.shape.begin() + 2, from.shape.end()));
  const int64_t planes = from.shape[2];
  const int64_t plane = planes ? spatial / planes : 1;
  MapSpec spec = movement(lowering, node);
  StoragePtr out = lowering.make_storage(node.outputs[0], node);
  StoragePtr in = lowering.storage(node.inputs[0]);
  MapOperand source;
  source.name = "x";
  if (to.layout == Layout::Packed) {
    spec.dims = {from.shape[0], planes, quads, plane, 4};
    spec.name = "repack packed";
    out = std::make_shared<Storage>(scalar_view(*out));
    source.storage = in;
    source.index = cat("(c0 * ", channels, "u + c2 * 4u + c4) * ", spatial, "u + c1 * ", plane, "u + c3");
    if (channels % 4 != 0) source.valid = cat("c2 * 4u + c4 < ", channels, "u");
    source.fill = is_float(from.dtype) ? "0.0" : "0";
  } else {
    spec.dims = {from.shape[0], channels, planes, plane};
    spec.name = "repack plain";
    source.storage = std::make_shared<Storage>(scalar_view(*in));
    source.index = cat("(((c0 * ", planes, "u + c2) * ", quads, "u + c1 / 4u) * ", plane, "u + c3) * 4u + c1 % 4u");
  }
  spec.out = out;
  spec.operands = {source};
  emit_map(lowering, spec);
}

}  // namespace gyrus
