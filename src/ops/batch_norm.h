#pragma once
#include "graph/op.h"

namespace gyrus {

// Inference: x [N,C,…], mean [C], var [C], gamma [C] and beta [C] or neither; eps = 1e-5.
// y = (x - mean) / sqrt(var + eps) * gamma + beta.
extern const OpDef kBatchNorm;

}  // namespace gyrus
