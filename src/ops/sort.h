#pragma once
#include "graph/op.h"

// Order of long lines, and what stands on sorted lists.

namespace gyrus {

// Elements of x, f32, i32 or u32, along the last axis in their order (descending = 1: the largest first), and their
// positions as i32; of equal ones the lower position comes first. NaN is above all numbers, -0 equals 0 and comes out
// as 0. With `bits`, of u32 only: the lowest bits alone say the order.
extern const OpDef kSort;
// How many elements of a sorted list [n] are below each query, of any shape (right = 1: below or equal), i32. Numbers
// of 4 bytes, list and queries of one type.
extern const OpDef kSearchSorted;
// y[i, c]: the sum of x[rows[j], c] over j from ends[i - 1] (0 at first) to ends[i], in this order. x f32 [m, C], ends
// and rows i32 [n] and [r]; ends do not fall, the last is at most r.
extern const OpDef kSegmentSum;
// x itself, i32, where no element is above `most`; else the run is stopped with an error that names the node.
extern const OpDef kAtMost;

}  // namespace gyrus
