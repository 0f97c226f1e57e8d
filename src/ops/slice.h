#pragma once
#include "graph/op.h"

namespace gyrus {

// Every steps[a]-th element of [starts[a], ends[a]) of each axis; lists of full rank. Negative starts and ends count
// from the end of the axis; ends beyond it are clamped; ends before the start take nothing. Steps are positive, 1 by
// default.
struct SliceAttrs {
  std::vector<int64_t> starts;  // from the front
  std::vector<int64_t> steps;
  Shape shape;  // of the result
};
SliceAttrs slice_attrs(const Node& node, const Shape& input);

extern const OpDef kSlice;

}  // namespace gyrus
