#pragma once
#include "graph/op.h"

// Neighbourhoods of points.

namespace gyrus {

// The `k` points [n, d] with the least distance from each query [m, d], f32: indices i32 [m, k] and distances f32
// [m, k]; of equal distances the lower index comes first. `metric` "euclid": sum of squared differences, "dot":
// 1 - q·p. skip_self = 1: query i leaves point i out; then m is n.
extern const OpDef kNearest;
// rho [n], sigma [n] and the weights [n, k] of UMAP's fuzzy graph from distances [n, k], f32, that rise along each row
// (gyrus/neighbours.h).
extern const OpDef kFuzzyWeights;

}  // namespace gyrus
