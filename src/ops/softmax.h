#pragma once
#include "graph/op.h"

namespace gyrus {

// exp(x - max) / sum(exp(x - max)) along `axis`.
extern const OpDef kSoftmax;

}  // namespace gyrus
