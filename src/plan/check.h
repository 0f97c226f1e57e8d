#pragma once
#include "gyrus/limits.h"
#include "plan/plan.h"

namespace gyrus {

// Throws InvalidInput, naming the step, buffer, kernel or port, unless the plan is consistent in itself: indexes and
// ranges exist, sizes are multiples of 4, bindings fit their kernels, no dispatch writes what it also binds otherwise,
// the pieces of every port cover its tensor, and those of states are whole buffers of their own.
void check_consistent(const Plan& plan);

// check_consistent, then throws OverLimits, naming the step, unless everything fits the limits. A plan from a file can
// be wrong about what it needs, so nothing is taken from Plan::needs.
void check(const Plan& plan, const Limits& limits);

}  // namespace gyrus
