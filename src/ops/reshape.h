#pragma once
#include "graph/op.h"

namespace gyrus {

// The same elements under another shape, attribute `shape`; one extent may be -1 and is found from the others.
extern const OpDef kReshape;

}  // namespace gyrus
