#pragma once
#include <string>

#include "core/wgsl.h"

namespace gyrus {

// The value that remains of x in that element type, as a double.
double round_to(DType dtype, double x);

// x of that type, cast to an element type: truncates toward zero and clamps to the range, NaN becomes 0; to f16 rounds
// to nearest even; to bool: 1 where it is not 0.
std::string cast_wgsl(const std::string& x, DType to, WgslType type);

}  // namespace gyrus
