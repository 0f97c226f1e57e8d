#pragma once
#include "graph/op.h"

namespace gyrus {

// `value` (0 by default) around the input: pads = [before each axis…, after each axis…], none negative.
struct PadAttrs {
  std::vector<int64_t> lo, hi;  // elements, one each axis
  double value = 0;
};
PadAttrs pad_attrs(const Node& node, size_t rank);

extern const OpDef kPad;

}  // namespace gyrus
