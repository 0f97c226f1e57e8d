#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/op.h"

// Movement ops say where their elements come from, and that is all: reference, kernel and gradient are made from it.

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

// The reference of every op with index maps.
void move_elements(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs);

}  // namespace gyrus
