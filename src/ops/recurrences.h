#pragma once
#include "graph/op.h"

// Recurrences along axis 1 whose state is carried in and out: those of state space models and of linear attention.
// All operands are f32. Gradients make states again for `segment` steps at a time; 0: for as many as have 2^24
// elements.

namespace gyrus {

// x, dt [B,S,H], A [H,N], B, C [B,S,N], start [B,H,N] or absent (zeros) -> y [B,S,H], last [B,H,N]:
//   h[b,c,n] = exp(dt[b,t,c] A[c,n]) h[b,c,n] + dt[b,t,c] B[b,t,n] x[b,t,c];  y[b,t,c] = Σ_n C[b,t,n] h[b,c,n].
extern const OpDef kSelectiveScan;
// The delta rule with a transition that is a diagonal and one more rank. rows [B,S,H,5K] hold w, a, b, k and r one
// after another, v [B,S,H,V], start M [B,H,V,K] or absent (zeros) -> y [B,S,H,V], last M [B,H,V,K]:
//   M = M (diag(w) + aᵀ b) + vᵀ k;  y = M r.
extern const OpDef kDeltaRule;
// M behind every step of that rule, [B,S,H,V,K]; reverse = 1: from the last step to the first. r is not read.
extern const OpDef kDeltaStates;

}  // namespace gyrus
