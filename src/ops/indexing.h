#pragma once
#include "graph/op.h"

// Elements chosen or written by index tensors (i32, u32, i64). Negative indices count from the end of their axis. An
// index outside is an error: InvalidInput in the reference, a report of the kernel on a device.

namespace gyrus {

// out[…, i, …] = data[…, indices[…, i, …], …] along `axis`; along the other axes indices have at most data's extents.
extern const OpDef kGatherElements;
// The last axis of the indices [batch…, q…, k] counts coordinates of the k axes of data behind the first `batch_dims`
// (0 by default), which both share: [batch…, q…, the axes behind].
extern const OpDef kGatherNd;
// data with updates written at the indices, which have the updates' shape, along `axis`. Where several go to one place
// they follow each other in their order; `reduction` is "none" (the last stays), "add", "mul", "min" or "max".
extern const OpDef kScatterElements;
// The same with indices [q…, k] of coordinates and updates [q…, the axes behind].
extern const OpDef kScatterNd;
// What both become: data [N, inner], rows [M] of i32 within 0 to N-1, updates [M, inner], 4-byte elements; `reduction`.
extern const OpDef kScatterRows;

enum class Reduction : uint8_t { None, Add, Mul, Min, Max };
Reduction reduction_of(const Node& node);

}  // namespace gyrus
