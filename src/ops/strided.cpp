#include "ops/strided.h"

#include "ops/common.h"
#include "ops/index_map.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"shape", "strides", "offset"});
  const Shape& shape = node.attrs.integers("shape");
  const std::vector<int64_t>& strides = node.attrs.integers("strides");
  if (strides.size() != shape.size())
    fail(ErrorCode::InvalidGraph, node.op, "strides are ", to_string(strides), ", expected one for each axis of ",
         to_string(shape));
  int64_t least = node.attrs.integer("offset", 0), most = least;
  for (size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] < 0) fail(ErrorCode::InvalidGraph, node.op, "shape is ", to_string(shape));
    (strides[a] < 0 ? least : most) += strides[a] * (shape[a] - 1);
  }
  const int64_t count = element_count(inputs[0].shape);
  if (element_count(shape) > 0 && (least < 0 || most >= count))
    fail(ErrorCode::InvalidGraph, node.op, "reads elements ", least, " to ", most, " of ", count);
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

std::vector<IndexMap> index_maps(const Node& node, const std::vector<Shape>&, const Shape&) {
  IndexMap map;
  map.strides = node.attrs.integers("strides");
  map.offset = node.attrs.integer("offset", 0);
  return {map};
}

}  // namespace

const OpDef kStrided = {
    .name = "strided",
    .infer = infer,
    .reference = move_elements,
    .index_maps = index_maps,
    .flops = no_flops,
};

}  // namespace gyrus
