#pragma once
#include "graph/op.h"

namespace gyrus {

// Every steps[a]-th element of [starts[a], ends[a]) of each axis; lists of full rank. Negative starts and ends count
// from the end of the axis; ends beyond it are clamped; ends before the start take nothing. Steps are 1 by default.
// With a negative step the slice goes backwards from a start inside the axis down to the end, which is not taken; an
// end of -extent - 1 or less lies before the first element.
struct SliceAttrs {
  std::vector<int64_t> starts;  // from the front
  std::vector<int64_t> steps;
  Shape shape;  // of the result
};
SliceAttrs slice_attrs(const Node& node, const Shape& input);

extern const OpDef kSlice;

}  // namespace gyrus
