#include "ops/slice.h"

#include <algorithm>
#include <cstdlib>

#include "ops/building.h"
#include "ops/common.h"
#include "ops/index_map.h"

namespace gyrus {
namespace {

std::vector<int64_t> full_rank(const Node& node, const char* name, std::vector<int64_t> list, const Shape& input) {
  if (list.size() != input.size())
    fail(ErrorCode::InvalidGraph, node.op, name, " has ", list.size(), " numbers, expected one for each axis of ",
         to_string(input));
  return list;
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"starts", "ends", "steps"});
  return {{inputs[0].dtype, slice_attrs(node, inputs[0].shape).shape, Layout::Plain}};
}

std::vector<IndexMap> index_maps(const Node& node, const std::vector<Shape>& inputs, const Shape&) {
  const SliceAttrs attrs = slice_attrs(node, inputs[0]);
  IndexMap map;
  map.strides = strides_of(inputs[0]);
  for (size_t a = 0; a < map.strides.size(); ++a) {
    map.offset += attrs.starts[a] * map.strides[a];
    map.strides[a] *= attrs.steps[a];
  }
  return {map};
}

// Every element along `axis` becomes a block of `size`, in which it stands at `place` among zeros.
Value blocks_of(Value g, size_t axis, int64_t place, int64_t size) {
  const Shape shape = g.shape();
  Shape apart = shape, together = shape;
  const size_t inner = axis + 1;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(inner), 1);
  together[axis] *= size;
  std::vector<int64_t> pads(2 * apart.size(), 0);
  pads[inner] = place;
  pads[inner + apart.size()] = size - 1 - place;
  return reshape(pad(reshape(g, apart), pads), together);
}

std::vector<Value> gradient(const Backward& back) {
  const Shape shape = back.inputs[0].shape();
  const SliceAttrs attrs = slice_attrs(back.node, shape);
  Value g = back.gradients[0];
  if (element_count(attrs.shape) == 0) return {expand(scalar(g, 0), shape)};
  std::vector<int64_t> pads(2 * shape.size(), 0), starts(shape.size(), 0), ends = g.shape(), steps(shape.size(), 1);
  bool turned = false;
  for (size_t a = 0; a < shape.size(); ++a) {
    if (attrs.steps[a] > 0) continue;
    turned = true;
    steps[a] = -1;
    starts[a] = attrs.shape[a] - 1;
    ends[a] = -attrs.shape[a] - 1;
  }
  if (turned) g = slice(g, starts, ends, steps);
  for (size_t a = 0; a < shape.size(); ++a) {
    const int64_t step = attrs.steps[a];
    if (step > 1 && attrs.starts[a] < step && attrs.shape[a] * step == shape[a]) {
      g = blocks_of(g, a, attrs.starts[a], step);
      continue;
    }
    g = spread(g, a, std::abs(step));
    pads[a] = step > 0 ? attrs.starts[a] : attrs.starts[a] + (attrs.shape[a] - 1) * step;
    pads[a + shape.size()] = shape[a] - pads[a] - g.shape()[a];
  }
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  return {padded ? pad(g, pads) : g};
}

}  // namespace

SliceAttrs slice_attrs(const Node& node, const Shape& input) {
  SliceAttrs attrs;
  attrs.starts = full_rank(node, "starts", node.attrs.integers("starts"), input);
  attrs.steps = full_rank(node, "steps", node.attrs.integers("steps", std::vector<int64_t>(input.size(), 1)), input);
  const std::vector<int64_t> ends = full_rank(node, "ends", node.attrs.integers("ends"), input);
  for (size_t a = 0; a < input.size(); ++a) {
    int64_t& start = attrs.starts[a];
    const int64_t given = start, step = attrs.steps[a];
    if (step == 0) fail(ErrorCode::InvalidGraph, node.op, "the step of axis ", a, " is 0");
    if (start < 0) start += input[a];
    const int64_t end = ends[a] < 0 ? std::max<int64_t>(ends[a] + input[a], step < 0 ? -1 : ends[a] + input[a])
                                    : std::min(ends[a], input[a]);
    const int64_t count = std::max<int64_t>(step > 0 ? ceil_div(std::max<int64_t>(end - start, 0), step)
                                                     : ceil_div(std::max<int64_t>(start - end, 0), -step),
                                            0);
    if (start < 0 || start > input[a] || (step < 0 && count > 0 && start == input[a]))
      fail(ErrorCode::InvalidGraph, node.op, "starts at ", given, ", which is outside axis ", a, " of ",
           to_string(input));
    attrs.shape.push_back(count);
  }
  return attrs;
}

const OpDef kSlice = {
    .name = "slice",
    .infer = infer,
    .reference = move_elements,
    .index_maps = index_maps,
    .gradient = gradient,
    .flops = no_flops,
};

}  // namespace gyrus
