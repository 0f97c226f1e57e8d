#include "ops/expand.h"

#include "ops/building.h"
#include "ops/common.h"
#include "ops/index_map.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"shape"});
  const Shape& shape = node.attrs.integers("shape");
  for (int64_t extent : shape)
    if (extent < 0)
      fail(ErrorCode::InvalidGraph, node.op, "shape is ", to_string(shape), ", expected extents of 0 or more");
  if (broadcast(node, inputs[0].shape, shape) != shape)
    fail(ErrorCode::InvalidGraph, node.op, "input ", to_string(inputs[0].shape), " does not broadcast to ",
         to_string(shape));
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

std::vector<IndexMap> index_maps(const Node&, const std::vector<Shape>& inputs, const Shape& output) {
  IndexMap map;
  map.strides = broadcast_strides(inputs[0], output);
  return {map};
}

std::vector<Value> gradient(const Backward& back) { return {sum_to(back.gradients[0], back.inputs[0].shape())}; }

}  // namespace

const OpDef kExpand = {
    .name = "expand",
    .infer = infer,
    .reference = move_elements,
    .index_maps = index_maps,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
