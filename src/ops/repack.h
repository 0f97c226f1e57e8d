#pragma once
#include "graph/op.h"

namespace gyrus {

// The same values in another layout: to = "packed" (from rank 3 on: [N,C,sp…]) or "plain".
extern const OpDef kRepack;

}  // namespace gyrus
