#pragma once
#include <string>

#include "gyrus/limits.h"

namespace gyrus {

// The limits every WebGPU implementation offers.
Limits default_limits();
// Absurdly small limits, for tests: no real device has them.
Limits tiny_limits();
// The smaller (for alignments: the larger) of each limit.
Limits intersect(const Limits& a, const Limits& b);

}  // namespace gyrus
