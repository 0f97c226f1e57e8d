#pragma once
#include "graph/op.h"

// Reductions over `axes` (all by default; negative ones count from the end). keepdims = 1 leaves extents of 1.

namespace gyrus {

extern const OpDef kReduceSum;   // floats, i32, u32
extern const OpDef kReduceProd;  // likewise
extern const OpDef kReduceMean;  // floats
extern const OpDef kReduceMax;   // floats, i32, u32
extern const OpDef kReduceMin;   // floats, i32, u32

struct ReduceAttrs {
  std::vector<bool> reduced;  // one for each axis of the input
  bool keepdims = false;
  Shape shape;  // of the result
};
// Also of an argmax node, which has one axis.
ReduceAttrs reduce_attrs(const Node& node, const Shape& input);

// The position of the largest element along `axis`, of equal ones the lowest, or with last = 1 the highest;
// dtype = "u32" | "u8" | "i32".
extern const OpDef kArgmax;
extern const OpDef kArgmin;  // of the smallest; becomes an argmax

}  // namespace gyrus
