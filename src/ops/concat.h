#pragma once
#include "graph/op.h"

namespace gyrus {

// The inputs one after another along `axis`; all other extents are equal.
extern const OpDef kConcat;

}  // namespace gyrus
