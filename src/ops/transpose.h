#pragma once
#include "graph/op.h"

namespace gyrus {

// Axis a of the result is axis perm[a] of the input.
extern const OpDef kTranspose;

}  // namespace gyrus
