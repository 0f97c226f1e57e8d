#pragma once
#include "graph/op.h"

namespace gyrus {

// Element c of the result is element offset + Σ strides[a]·c[a] of the input, counted as it lies. Made by a pass from
// several movements in a row; importers and users have those.
extern const OpDef kStrided;

}  // namespace gyrus
