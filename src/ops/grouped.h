#pragma once
#include "graph/op.h"

// Products of rows with one matrix of several: mixtures of experts.

namespace gyrus {

// expert [M] of i32 within 0 to `groups` - 1 -> [groups + 1 + M] of i32: where the rows of each expert begin, counted
// in the list that follows, then that list: the rows by expert, those of one expert in their order. An index outside is
// an error: InvalidInput in the reference, a report of the kernel on a device.
extern const OpDef kGroupRows;
// y[m] = x[m] weight[e] of the expert e of row m: x [M,K], weight [E,K,N] (transpose = 1: [E,N,K]), groups as above.
extern const OpDef kGroupedMatmul;
// Its gradient in the weights: out[e] = Σ over its rows of xᵀ y, x [M,K], y [M,N], groups -> [E,K,N].
extern const OpDef kGroupedWeights;

}  // namespace gyrus
