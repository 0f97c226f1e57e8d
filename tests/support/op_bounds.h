#pragma once
#include <cmath>
#include <vector>

#include "core/limits.h"
#include "core/tensor.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "plan/planner.h"

// Under which limits the op table runs on a device, and how close the results must be: for every runtime the same.

namespace gyrus::test {

struct OpSetting {
  const char* name;
  Limits limits;
  Precision precision;
  PlanOptions options;
};

// Kernels for a GPU stage weights behind barriers, those for a CPU do not: both shapes run on whatever adapter there
// is.
inline std::vector<OpSetting> op_settings(const Limits& adapter) {
  return {{"adapter", adapter, Precision::F32, software_options()},
          {"default", intersect(default_limits(), adapter), Precision::F32, {}},
          {"tiny", tiny_limits(), Precision::F32, software_options()},
          {"tiny-f16", tiny_limits(), Precision::F16, {}},
          {"f16", adapter, Precision::F16, software_options()}};
}

inline Plan op_plan(const OpCase& c, const Graph& graph, const OpSetting& setting) {
  PlanOptions options = setting.options;
  if (c.exact) options.conv.winograd = false;  // its transforms round
  return make_plan(optimize(graph, setting.precision), setting.limits, options);
}

// f32 sums of some thousand products of numbers near 1 lose about 1e-7 of their size: a squared relative error of 1e-14
// with room for a factor of 30 in the error.
constexpr double kF32Nmse = 1e-11;
// Halves keep 11 bits: each stored map adds a squared relative error of about (2^-12)^2 = 6e-8.
constexpr double kF16Nmse = 2e-6;

// The most that sum of squared differences over sum of squares may be for an output of floats. Data whose mean is r
// standard deviations from zero loses r * 2^-24 of its spread when the mean (or, in halves, the data) is stored.
inline double most_nmse(const OpCase& c, const OpSetting& setting, DType dtype) {
  const bool halves = setting.precision == Precision::F16 || dtype == DType::F16;
  if (c.exact && !halves) return 0;
  const double ratio = c.fill == Fill::Normal && c.hi > 0 ? std::abs(c.lo) / c.hi : 0;
  const double error = ratio * std::ldexp(1.0, halves ? -12 : -24);
  return (halves ? kF16Nmse : kF32Nmse) + error * error;
}

// How many elements of an output of integers (labels) may differ: where two candidates are within rounding.
inline double most_different(const OpCase& c, const OpSetting& setting, int64_t elements) {
  const double allowed = c.exact ? 0 : setting.precision == Precision::F16 ? 0.01 : 0.0005;
  return std::ceil(allowed * static_cast<double>(elements));
}

}  // namespace gyrus::test
