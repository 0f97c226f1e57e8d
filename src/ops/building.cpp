#include "ops/building.h"

#include <numeric>

namespace gyrus {

Value sum_to(Value gradient, const Shape& shape) {
  const Shape given = gradient.shape();
  if (given == shape) return gradient;
  const size_t added = given.size() - shape.size();
  std::vector<int64_t> axes;
  for (size_t a = 0; a < given.size(); ++a)
    if (a < added || (shape[a - added] == 1 && given[a] != 1)) axes.push_back(static_cast<int64_t>(a));
  if (!axes.empty()) gradient = reduce_sum(gradient, {axes, true});
  return gradient.shape() == shape ? gradient : reshape(gradient, shape);
}

Value zeros(Value like, const Shape& shape) { return expand(scalar(like, 0), shape); }

Value counted(Graph& graph, int64_t count) {
  Tensor numbers(DType::I32, {count});
  std::iota(numbers.as<int32_t>(), numbers.as<int32_t>() + count, 0);
  return graph.constant(std::move(numbers));
}

Value spread(Value x, size_t axis, int64_t step) {
  const Shape shape = x.shape();
  if (step == 1 || shape[axis] < 2) return x;
  Shape apart = shape, joined = shape;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  std::vector<int64_t> pads(2 * apart.size(), 0);
  pads[apart.size() + axis + 1] = step - 1;
  joined[axis] *= step;
  return slice_of(reshape(pad(reshape(x, apart), pads), joined), axis, 0, joined[axis] - step + 1);
}

Value slice_of(Value x, size_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> starts(x.shape().size(), 0), ends = x.shape();
  starts[axis] = begin;
  ends[axis] = end;
  return slice(x, starts, ends);
}

std::vector<int64_t> axes_from(size_t first, size_t rank) {
  std::vector<int64_t> axes(rank - first);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(first));
  return axes;
}

}  // namespace gyrus
