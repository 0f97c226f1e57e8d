#pragma once
#include "graph/op.h"

// Activations: float in, the same float type out. Their WGSL functions are in src/kernels/elementwise.wgsl.

namespace gyrus {

extern const OpDef kRelu;
extern const OpDef kLeakyRelu;  // alpha = 0.01
extern const OpDef kElu;        // alpha = 1
extern const OpDef kGelu;       // approximate = "none" | "tanh"
extern const OpDef kSilu;
extern const OpDef kSigmoid;
extern const OpDef kTanh;
extern const OpDef kSoftplus;

}  // namespace gyrus
