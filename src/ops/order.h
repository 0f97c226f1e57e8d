#pragma once
#include "graph/op.h"

// Order along an axis.

namespace gyrus {

// The `k` largest (largest = 0: smallest) elements along `axis` in their order, and their positions as i32; of equal
// ones the lower position comes first.
extern const OpDef kTopK;
// What it becomes. The place of each element in that order, i32; f32, i32 or u32 elements; `axis`, `largest`.
extern const OpDef kRanks;
// Elements of x (4 bytes) put at their place along `axis`, i32, as far as it is below `k`. Places differ.
extern const OpDef kPlace;

// Whether a stands before b where small ones come first: NaN is above all numbers, and equals itself.
bool comes_before(double a, double b);

}  // namespace gyrus
