#pragma once
#include <string>
#include <vector>

#include "graph/op.h"
#include "gyrus/ops.h"

// What gradients of transforms and transforms that no kernel takes are made of.

namespace gyrus {

// A transform as the attributes of kFft say.
Value fft_along(Value x, size_t axis, int64_t n, const std::string& kind, const std::string& norm, bool inverse);
// Cut or filled with zeros to an extent.
Value fft_fitted(Value x, size_t axis, int64_t extent);

// A transform that does not fit the limits, as movement, products and shorter transforms: real numbers become complex
// ones, then the axis the last one, then a length is cut into two factors, or, where it is prime, is convolved.
std::vector<ValueId> decompose_fft(Graph& graph, const Node& node);

}  // namespace gyrus
