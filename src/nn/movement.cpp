#include <algorithm>

#include "core/error.h"
#include "nn/taps.h"

namespace gyrus {
namespace {

std::vector<int64_t> all_axes(Value x, const Reduce& over) {
  if (!over.axes.empty()) return over.axes;
  std::vector<int64_t> axes;
  for (size_t a = 0; a < x.shape().size(); ++a) axes.push_back(static_cast<int64_t>(a));
  return axes;
}

int64_t wrapped(int64_t i, int64_t extent) { return (i % extent + extent) % extent; }

// Where element i, counted from the first of the map, comes from.
int64_t source(int64_t i, int64_t extent, PadMode mode) {
  if (mode == PadMode::Edge) return std::clamp<int64_t>(i, 0, extent - 1);
  if (mode == PadMode::Wrap || extent == 1) return wrapped(i, extent);
  const int64_t period = 2 * (extent - 1), at = wrapped(i, period);
  return at < extent ? at : period - at;
}

// The spatial extents of x times or divided by a factor, with the channels the other way.
Value check_map(Value x, const char* op, int64_t factor) {
  if (x.shape().size() != 4 || factor < 1)
    fail(ErrorCode::InvalidGraph, op, "input is ", to_string(x.shape()), " and the factor ", factor,
         ", expected [N,C,H,W] and 1 or more");
  return x;
}

}  // namespace

Value embedding(Value weight, Value indices, std::optional<int64_t> padding) {
  if (!padding) return gather(weight, indices);
  Tensor row(DType::Bool, {weight.shape().at(0), 1});
  std::fill(row.data.begin(), row.data.end(), std::byte{0});
  row.data.at(static_cast<size_t>(*padding)) = std::byte{1};
  return gather(where(weight.graph().constant(std::move(row)), detach(weight), weight), indices);
}

Value linear(Value x, Value weight, Value bias) {
  if (x.shape().size() != 1) return matmul(x, weight, {.bias = bias, .transpose_b = true});
  const Value y = matmul(reshape(x, {1, -1}), weight, {.bias = bias, .transpose_b = true});
  return reshape(y, {-1});
}

Value reduce_l1(Value x, const Reduce& over) { return reduce_sum(abs(x), over); }
Value reduce_l2(Value x, const Reduce& over) { return sqrt(reduce_sum(square(x), over)); }

Value log_sum_exp(Value x, const Reduce& over) {
  // Its gradients cancel, but not what they round to.
  const Value most = detach(reduce_max(x, {all_axes(x, over), true}));
  const Value sum = log(reduce_sum(exp(x - most), over));
  return sum + reshape(most, sum.shape());
}

Value reduce_var(Value x, const Reduce& over, int64_t correction) {
  const Reduce kept{all_axes(x, over), true};
  const Value squares = reduce_sum(square(x - reduce_mean(x, kept)), over);
  const double count = static_cast<double>(element_count(x.shape())) /
                       static_cast<double>(std::max<int64_t>(1, element_count(squares.shape())));
  return squares / (count - static_cast<double>(correction));
}

Value reduce_std(Value x, const Reduce& over, int64_t correction) { return sqrt(reduce_var(x, over, correction)); }

Value flip(Value x, const std::vector<int64_t>& axes) {
  for (int64_t given : axes) {
    const size_t axis = front_axis(x, given, "flip");
    const int64_t extent = x.shape()[axis];
    if (extent > 1) x = slice_axis(x, axis, extent - 1, -extent - 1, -1);
  }
  return x;
}

Value roll(Value x, const std::vector<int64_t>& shifts, const std::vector<int64_t>& axes) {
  if (shifts.size() != axes.size())
    fail(ErrorCode::InvalidGraph, "roll", shifts.size(), " shifts for ", axes.size(), " axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = front_axis(x, axes[i], "roll");
    const int64_t extent = x.shape()[axis];
    const int64_t by = extent ? wrapped(shifts[i], extent) : 0;
    if (by)
      x = concat({slice_axis(x, axis, extent - by, extent), slice_axis(x, axis, 0, extent - by)},
                 static_cast<int64_t>(axis));
  }
  return x;
}

Value tile(Value x, const std::vector<int64_t>& repeats) {
  const Shape own = x.shape();
  if (repeats.size() != own.size())
    fail(ErrorCode::InvalidGraph, "tile", repeats.size(), " repeats for the axes of ", to_string(own));
  // An axis at a time: everything from it on is one row, repeated.
  for (size_t a = 0; a < own.size(); ++a) {
    if (repeats[a] == 1) continue;
    Shape shape = x.shape();
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(a);
    const int64_t outer = element_count(Shape(shape.begin(), at)), rest = element_count(Shape(at, shape.end()));
    shape[a] *= repeats[a];
    x = reshape(expand(reshape(x, {outer, 1, rest}), {outer, repeats[a], rest}), shape);
  }
  return x;
}

Value stack(const std::vector<Value>& parts, int64_t axis) {
  if (parts.empty()) fail(ErrorCode::InvalidGraph, "stack", "has no operand");
  const auto rank = static_cast<int64_t>(parts[0].shape().size()) + 1;
  if (axis < -rank || axis >= rank) fail(ErrorCode::InvalidGraph, "stack", "axis ", axis, " is outside rank ", rank);
  if (axis < 0) axis += rank;
  std::vector<Value> rows;
  for (const Value& part : parts) {
    Shape shape = part.shape();
    shape.insert(shape.begin() + axis, 1);
    rows.push_back(reshape(part, shape));
  }
  return concat(rows, axis);
}

std::vector<Value> split(Value x, const std::vector<int64_t>& sizes, int64_t given) {
  const size_t axis = front_axis(x, given, "split");
  std::vector<Value> parts;
  int64_t at = 0;
  for (int64_t size : sizes) {
    parts.push_back(slice_axis(x, axis, at, at + size));
    at += size;
  }
  if (at != x.shape()[axis])
    fail(ErrorCode::InvalidGraph, "split", "the sizes add up to ", at, ", but axis ", axis, " has ", x.shape()[axis]);
  return parts;
}

Value one_hot(Value indices, int64_t classes, int64_t axis) {
  const auto rank = static_cast<int64_t>(indices.shape().size()) + 1;
  if (axis < -rank || axis >= rank) fail(ErrorCode::InvalidGraph, "one_hot", "axis ", axis, " is outside rank ", rank);
  if (axis < 0) axis += rank;
  Shape shape = indices.shape(), line(static_cast<size_t>(rank), 1);
  shape.insert(shape.begin() + axis, 1);
  line[static_cast<size_t>(axis)] = classes;
  Tensor numbers(DType::I32, line);
  for (int64_t i = 0; i < classes; ++i) numbers.as<int32_t>()[i] = static_cast<int32_t>(i);
  const Value whole = cast(reshape(indices, shape), DType::I32);
  return cast(equal(whole, indices.graph().constant(std::move(numbers))), DType::F32);
}

Value pad(Value x, const std::vector<int64_t>& pads, PadMode mode) {
  const Shape shape = x.shape();
  if (pads.size() != 2 * shape.size())
    fail(ErrorCode::InvalidGraph, "pad", pads.size(), " pads for the axes of ", to_string(shape));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t before = pads[axis], after = pads[axis + shape.size()];
    if (before == 0 && after == 0) continue;
    if (shape[axis] == 0) fail(ErrorCode::InvalidGraph, "pad", "axis ", axis, " has no element to take");
    std::vector<int64_t> positions;
    for (int64_t i = -before; i < shape[axis] + after; ++i) positions.push_back(source(i, shape[axis], mode));
    x = take(x, axis, positions);
  }
  return x;
}

Value pixel_shuffle(Value x, int64_t r) {
  const Shape s = check_map(x, "pixel_shuffle", r).shape();
  const Value apart = reshape(x, {s[0], s[1] / (r * r), r, r, s[2], s[3]});
  return reshape(transpose(apart, {0, 1, 4, 2, 5, 3}), {s[0], s[1] / (r * r), s[2] * r, s[3] * r});
}

Value pixel_unshuffle(Value x, int64_t r) {
  const Shape s = check_map(x, "pixel_unshuffle", r).shape();
  const Value apart = reshape(x, {s[0], s[1], s[2] / r, r, s[3] / r, r});
  return reshape(transpose(apart, {0, 1, 3, 5, 2, 4}), {s[0], s[1] * r * r, s[2] / r, s[3] / r});
}

}  // namespace gyrus
