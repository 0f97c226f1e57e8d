#pragma once
#include "graph/op.h"

namespace gyrus {

// Pieces of `size` elements of the last axis, `hop` apart: [..., T] becomes [..., (T - size) / hop + 1, size].
extern const OpDef kFrames;

}  // namespace gyrus
