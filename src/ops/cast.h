#pragma once
#include "graph/op.h"

namespace gyrus {

// To another element type, attribute `to`. From float to integer: truncates toward zero, clamps to the range, NaN
// becomes 0; between integers: clamps. To f16 rounds to nearest even.
extern const OpDef kCast;

// The value that remains of x in that element type, as a double.
double round_to(DType dtype, double x);

}  // namespace gyrus
