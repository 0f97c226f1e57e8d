#include "ops/concat.h"

#include "ops/building.h"
#include "ops/common.h"
#include "ops/index_map.h"

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

std::vector<IndexMap> index_maps(const Node& node, const std::vector<Shape>& inputs, const Shape& output) {
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), output.size());
  std::vector<IndexMap> maps;
  int64_t start = 0;
  for (const Shape& input : inputs) {
    IndexMap map;
    map.strides = strides_of(input);
    map.offset = -start * map.strides[axis];
    map.lo.assign(output.size(), 0);
    map.hi = output;
    map.lo[axis] = start;
    map.hi[axis] = start += input[axis];
    maps.push_back(std::move(map));
  }
  return maps;
}

std::vector<Value> gradient(const Backward& back) {
  const size_t axis = checked_axis(back.node, back.node.attrs.integer("axis"), back.outputs[0].shape().size());
  std::vector<Value> parts;
  int64_t begin = 0;
  for (const Value& input : back.inputs) {
    const int64_t end = begin + input.shape()[axis];
    parts.push_back(slice_of(back.gradients[0], axis, begin, end));
    begin = end;
  }
  return parts;
}

}  // namespace

const OpDef kConcat = {
    .name = "concat",
    .infer = infer,
    .reference = move_elements,
    .index_maps = index_maps,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
