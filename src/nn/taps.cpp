#include "nn/taps.h"

#include <algorithm>

#include "core/error.h"

namespace gyrus {

size_t front_axis(Value x, int64_t axis, const char* op) {
  if (!x) fail(ErrorCode::InvalidGraph, op, "a value is missing");
  const auto rank = static_cast<int64_t>(x.shape().size());
  if (axis < -rank || axis >= rank)
    fail(ErrorCode::InvalidGraph, op, "axis ", axis, " is outside a tensor of rank ", rank);
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

Value slice_axis(Value x, size_t axis, int64_t start, int64_t end, int64_t step) {
  const Shape shape = x.shape();
  if (start == 0 && end == shape[axis] && step == 1) return x;
  std::vector<int64_t> starts(shape.size(), 0), ends = shape, steps(shape.size(), 1);
  starts[axis] = start;
  ends[axis] = end;
  steps[axis] = step;
  return slice(x, starts, ends, steps);
}

Value take(Value x, size_t axis, const std::vector<int64_t>& positions) {
  Tensor indices(DType::I32, {static_cast<int64_t>(positions.size())});
  for (size_t i = 0; i < positions.size(); ++i) indices.as<int32_t>()[i] = static_cast<int32_t>(positions[i]);
  return gather(x, x.graph().constant(std::move(indices)), static_cast<int64_t>(axis));
}

Value along_axis(Value x, size_t axis, const std::vector<double>& numbers) {
  Shape shape(x.shape().size(), 1);
  shape[axis] = static_cast<int64_t>(numbers.size());
  Tensor tensor(x.dtype(), shape);
  for (size_t i = 0; i < numbers.size(); ++i) set(tensor, static_cast<int64_t>(i), numbers[i]);
  return x.graph().constant(std::move(tensor));
}

Value weighted(Value x, size_t axis, const Taps& taps) {
  Value sum;
  for (size_t t = 0; t < taps.positions.size(); ++t) {
    const std::vector<double>& weights = taps.weights[t];
    if (std::all_of(weights.begin(), weights.end(), [](double w) { return w == 0; })) continue;
    Value term = take(x, axis, taps.positions[t]);
    if (std::any_of(weights.begin(), weights.end(), [](double w) { return w != 1; }))
      term = term * along_axis(x, axis, weights);
    sum = sum ? sum + term : term;
  }
  return sum;
}

Value largest(Value x, size_t axis, const Taps& taps) {
  Value most;
  for (const std::vector<int64_t>& positions : taps.positions) {
    const Value term = take(x, axis, positions);
    most = most ? max(most, term) : term;
  }
  return most;
}

}  // namespace gyrus
