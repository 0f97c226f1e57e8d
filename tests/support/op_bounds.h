#pragma once
#include <cmath>
#include <vector>

#include "core/hash.h"
#include "core/limits.h"
#include "core/tensor.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "reference/bounds.h"

// Under which limits the op table runs on a device, and how close the results must be: for every runtime the same.

namespace gyrus::test {

struct OpSetting {
  const char* name;
  Limits limits;
  Precision precision;
  PlanOptions options;
  bool browser = false;  // on a device that was opened with the default limits and nothing else
};

// Kernels for a GPU stage weights behind barriers and transform them (Winograd), those for a CPU do neither: both kinds
// run on whatever adapter there is.
inline std::vector<OpSetting> op_settings(const Limits& adapter) {
  return {{"adapter", adapter, Precision::F32, software_options()},
          {"f16", adapter, Precision::F16, software_options()},
          {"tiny", tiny_limits(), Precision::F32, software_options()},
          {"tiny-f16", tiny_limits(), Precision::F16, software_options()},
          {"browser", default_limits(), Precision::F32, {}, true},
          {"gpu", adapter, Precision::F32, {}},
          {"gpu-f16", adapter, Precision::F16, {}},
          {"gpu-tiny", tiny_limits(), Precision::F32, {}},
          {"gpu-tiny-f16", tiny_limits(), Precision::F16, {}}};
}

// A software driver compiles kernels for longer than it runs them, with staged weights for seconds. Unless everything
// is asked for, each of these settings takes one of so many of the cases that have kernels of their own there, others
// than the settings beside it: by their names, so that a case that is added changes nothing for the others.
inline bool left_for_everything(const OpSetting& setting, const OpCase& c) {
  const std::string name = setting.name;
  const uint64_t place = fnv1a(c.name) >> 40;
  if (name == "f16") return place % 2 != 0;
  if (name == "tiny-f16") return place % 2 != 1;
  if (name == "browser") return place % 4 != 0;
  if (name == "gpu") return place % 8 != 1;
  if (name == "gpu-f16") return place % 8 != 5;
  return name == "gpu-tiny" || name == "gpu-tiny-f16";
}

inline Plan op_plan(const OpCase& c, const Graph& graph, const OpSetting& setting) {
  PlanOptions options = setting.options;
  if (c.exact) options.conv.winograd = false;  // its transforms round
  return make_plan(optimize(graph, setting.precision), setting.limits, options);
}

using reference::kF16Different;
using reference::kF16Largest;
using reference::kF16Nmse;
using reference::kF32Different;
using reference::kF32Largest;
using reference::kF32Nmse;

// The most that sum of squared differences over sum of squares may be for an output of floats. Data whose mean is r
// standard deviations from zero loses r * 2^-24 of its spread when the mean (or, in halves, the data) is stored.
inline double most_nmse(const OpCase& c, const OpSetting& setting, DType dtype) {
  const bool halves = setting.precision == Precision::F16 || dtype == DType::F16;
  if (c.exact && !halves) return 0;
  const double ratio = c.fill == Fill::Normal && c.hi > 0 ? std::abs(c.lo) / c.hi : 0;
  const double error = ratio * std::ldexp(1.0, halves ? -12 : -24);
  return (halves ? kF16Nmse : kF32Nmse) + error * error;
}

inline double most_largest(const OpCase& c, const OpSetting& setting, DType dtype) {
  const bool halves = setting.precision == Precision::F16 || dtype == DType::F16;
  if (c.exact && !halves) return 0;
  return (halves ? kF16Largest : kF32Largest) + 8 * std::sqrt(most_nmse(c, setting, dtype));
}

// How many elements of an output of integers (labels) may differ: where two candidates are within rounding.
inline double most_different(const OpCase& c, const OpSetting& setting, int64_t elements) {
  const double allowed = c.exact ? 0 : setting.precision == Precision::F16 ? kF16Different : kF32Different;
  return std::ceil(allowed * static_cast<double>(elements));
}

}  // namespace gyrus::test
