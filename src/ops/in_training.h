#pragma once
#include "graph/op.h"

namespace gyrus {

// The second operand; where a network only runs, the first, and nothing that only the other needs.
extern const OpDef kInTraining;

}  // namespace gyrus
