#include "ops/pad.h"

#include <algorithm>
#include <cmath>

#include "ops/building.h"
#include "ops/cast.h"
#include "ops/common.h"
#include "ops/index_map.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"pads", "value"});
  const TensorType& x = inputs[0];
  const PadAttrs attrs = pad_attrs(node, x.shape.size());
  if (!is_float(x.dtype) && round_to(x.dtype, attrs.value) != attrs.value)
    fail(ErrorCode::InvalidGraph, node.op, "value ", attrs.value, " does not exist in ", to_string(x.dtype));
  Shape shape = x.shape;
  for (size_t a = 0; a < shape.size(); ++a) shape[a] += attrs.lo[a] + attrs.hi[a];
  return {{x.dtype, shape, Layout::Plain}};
}

std::vector<IndexMap> index_maps(const Node& node, const std::vector<Shape>& inputs, const Shape&) {
  const PadAttrs attrs = pad_attrs(node, inputs[0].size());
  IndexMap map;
  map.strides = strides_of(inputs[0]);
  map.lo = map.hi = attrs.lo;
  map.fill = attrs.value;
  for (size_t a = 0; a < map.strides.size(); ++a) {
    map.hi[a] += inputs[0][a];
    map.offset -= attrs.lo[a] * map.strides[a];
  }
  return {map};
}

std::vector<Value> gradient(const Backward& back) {
  const Shape shape = back.inputs[0].shape();
  const PadAttrs attrs = pad_attrs(back.node, shape.size());
  std::vector<int64_t> ends = attrs.lo;
  for (size_t a = 0; a < shape.size(); ++a) ends[a] += shape[a];
  return {slice(back.gradients[0], attrs.lo, ends)};
}

}  // namespace

PadAttrs pad_attrs(const Node& node, size_t rank) {
  const std::vector<int64_t>& pads = node.attrs.integers("pads");
  if (pads.size() != 2 * rank)
    fail(ErrorCode::InvalidGraph, node.op, "pads has ", pads.size(), " numbers, expected ", 2 * rank,
         ": before, then after each axis");
  for (int64_t p : pads)
    if (p < 0 || p > INT32_MAX)
      fail(ErrorCode::InvalidGraph, node.op, "pads is ", to_string(pads),
           ", expected numbers from 0 to 2^31-1; use slice to cut");
  PadAttrs attrs;
  attrs.lo.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  attrs.hi.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  attrs.value = node.attrs.number("value", 0);
  if (!std::isfinite(attrs.value))
    fail(ErrorCode::Unsupported, node.op, "value is ", attrs.value, ", expected a finite number");
  return attrs;
}

const OpDef kPad = {
    .name = "pad",
    .infer = infer,
    .reference = move_elements,
    .index_maps = index_maps,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
