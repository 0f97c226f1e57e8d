#pragma once
#include "graph/op.h"

namespace gyrus {

// Slices of `data` along `axis` (0 by default), chosen by an operand of integers (i32 or u32): the result is
// data.shape[:axis] + indices.shape + data.shape[axis+1:]. Negative indices count from the end of the axis. An index
// outside the axis is an error: InvalidInput in the reference, a report of the kernel on a device.
extern const OpDef kGather;

}  // namespace gyrus
