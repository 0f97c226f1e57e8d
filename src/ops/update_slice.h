#pragma once
#include "graph/op.h"

namespace gyrus {

// `base` with `value` written over it from position `start` of `axis` (0 by default) on. Both have one element type and
// equal extents but along the axis. `start` is an attribute (0 by default) or a third operand, one i32 or u32. A value
// that does not lie inside base is an error: InvalidInput in the reference, a report of the kernel on a device. Written
// in place where nothing else reads base.
extern const OpDef kUpdateSlice;

}  // namespace gyrus
