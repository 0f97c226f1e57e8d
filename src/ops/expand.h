#pragma once
#include "graph/op.h"

namespace gyrus {

// The input repeated along its axes of extent 1, and along new axes in front, up to attribute `shape`.
extern const OpDef kExpand;

}  // namespace gyrus
