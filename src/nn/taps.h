#pragma once
#include <vector>

#include "gyrus/nn.h"

// Weighted elements along one axis: what pooling, interpolation and padding by indices share.

namespace gyrus {

// The axis counted from the front; throws InvalidGraph where it is outside.
size_t front_axis(Value x, int64_t axis, const char* op);
// Elements [start, end) of one axis by a step.
Value slice_axis(Value x, size_t axis, int64_t start, int64_t end, int64_t step = 1);
// The elements of an axis with these positions.
Value take(Value x, size_t axis, const std::vector<int64_t>& positions);
// A constant of the type of x along one of its axes, which broadcasts over the others.
Value along_axis(Value x, size_t axis, const std::vector<double>& numbers);

// Output i is made from positions[t][i] with the weights[t][i], t = 0 …
struct Taps {
  std::vector<std::vector<int64_t>> positions;
  std::vector<std::vector<double>> weights;
};
Value weighted(Value x, size_t axis, const Taps& taps);
Value largest(Value x, size_t axis, const Taps& taps);  // weights are not used

}  // namespace gyrus
