#include "ops/frames.h"

#include "gyrus/signal.h"
#include "ops/building.h"
#include "ops/common.h"
#include "ops/fft_parts.h"
#include "ops/index_map.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"size", "hop"});
  Shape shape = inputs[0].shape;
  const int64_t size = node.attrs.integer("size"), hop = node.attrs.integer("hop");
  if (shape.empty() || size < 1 || hop < 1 || shape.back() < size)
    fail(ErrorCode::InvalidGraph, node.op, "frames of ", size, " elements, ", hop, " apart, of ", to_string(shape),
         ": expected at least 1 each, and no frame longer than the last axis");
  const int64_t count = (shape.back() - size) / hop + 1;
  shape.back() = count;
  shape.push_back(size);
  return {{inputs[0].dtype, shape, Layout::Plain}};
}

std::vector<IndexMap> index_maps(const Node& node, const std::vector<Shape>& inputs, const Shape&) {
  IndexMap map;
  map.strides = strides_of(inputs[0]);
  map.strides.back() = node.attrs.integer("hop");
  map.strides.push_back(1);
  return {map};
}

std::vector<Value> gradient(const Backward& back) {
  return {overlap_add(back.gradients[0], back.node.attrs.integer("hop"), back.inputs[0].shape().back())};
}

}  // namespace

Value overlap_add(Value x, int64_t hop, int64_t length) {
  const Shape shape = x.shape();
  const size_t rank = shape.size();
  if (rank < 2 || hop < 1 || length < 0)
    fail(ErrorCode::InvalidGraph, "overlap_add", "frames are ", to_string(shape), ", ", hop, " apart, of ", length,
         " elements; expected [..., frames, size] and a hop of 1 or more");
  const int64_t frames = shape[rank - 2], size = shape[rank - 1], parts = ceil_div(size, hop);
  const int64_t lines = element_count(Shape(shape.begin(), shape.end() - 2)), blocks = frames + parts - 1;
  // Part c of frame f falls on block f + c. Rows of parts, each a block longer than there are, read as rows of one
  // block less, stand one block further from row to row.
  x = fft_fitted(reshape(x, {lines, frames, size}), 2, parts * hop);
  x = transpose(reshape(x, {lines, frames, parts, hop}), {0, 2, 1, 3});
  x = reshape(fft_fitted(x, 2, blocks + 1), {lines, parts * (blocks + 1) * hop});
  x = reshape(slice_of(x, 1, 0, parts * blocks * hop), {lines, parts, blocks * hop});
  x = fft_fitted(reduce_sum(x, {{1}}), 1, length);
  Shape result(shape.begin(), shape.end() - 2);
  result.push_back(length);
  return reshape(x, result);
}

const OpDef kFrames = {
    .name = "frames",
    .infer = infer,
    .reference = move_elements,
    .index_maps = index_maps,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
