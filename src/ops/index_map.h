#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace gyrus {

// Where an element of a result comes from: source[offset + Σ strides[a]·c[a]] for coordinates c of the result inside
// the box [lo, hi); outside it `fill`, or without one the element belongs to another operand and is left as it is.
// Strides and offset count elements of the source; empty `lo` and `hi`: everywhere.
struct IndexMap {
  std::vector<int64_t> strides;
  int64_t offset = 0;
  std::vector<int64_t> lo, hi;
  std::optional<double> fill;
};

}  // namespace gyrus
