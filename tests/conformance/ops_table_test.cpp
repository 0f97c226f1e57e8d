// The op table on a real WebGPU device against the reference executor, under several limits and precisions.
#include <gtest/gtest.h>

#include <cmath>

#include "core/limits.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "plan/check.h"
#include "plan/planner.h"
#include "reference/reference.h"
#include "runtime/device.h"
#include "runtime/executor.h"

namespace gyrus::test {
namespace {

// f32 sums of some thousand products of numbers near 1 lose about 1e-7 of their size: a squared relative error of 1e-14
// with room for a factor of 30 in the error.
constexpr double kF32Nmse = 1e-11;
// Halves keep 11 bits: each stored map adds a squared relative error of about (2^-12)^2 = 6e-8.
constexpr double kF16Nmse = 2e-6;

// Sum of squared differences over sum of squares; infinities and NaN must be equal in both.
double nmse(const Tensor& got, const RefTensor& want) {
  double error = 0;
  double power = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double a = get(got, i);
    const double b = want.data[i];
    if (std::isnan(b) && std::isnan(a)) continue;
    const double narrow = static_cast<double>(static_cast<float>(b));
    if (std::isinf(narrow) && narrow == a) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return INFINITY;
    error += (a - b) * (a - b);
    power += b * b;
  }
  return power > 0 ? error / power : error;
}

Device& test_device() {
  static Device device = [] {
    DeviceOptions options;
    options.limits = choose_adapter("").limits;
    return open_device(options);
  }();
  return device;
}

struct Setting {
  const char* name;
  Limits limits;
  Precision precision;
  PlanOptions options;
};

// Kernels for a GPU stage weights behind barriers, those for a CPU do not: both shapes run on whatever adapter there is.
std::vector<Setting> settings() {
  const Limits adapter = test_device().limits();
  return {{"adapter", adapter, Precision::F32, software_options()},
          {"default", intersect(default_limits(), adapter), Precision::F32, {}},
          {"tiny", tiny_limits(), Precision::F32, software_options()},
          {"tiny-f16", tiny_limits(), Precision::F16, {}},
          {"f16", adapter, Precision::F16, software_options()}};
}

// What storing the values of a case costs: data whose mean is r standard deviations from zero loses r * 2^-24 of its
// spread when the mean (or, in halves, the data) is stored.
double storage_nmse(const OpCase& c, bool halves) {
  const double ratio = c.fill == Fill::Normal && c.hi > 0 ? std::abs(c.lo) / c.hi : 0;
  const double error = ratio * std::ldexp(1.0, halves ? -12 : -24);
  return (halves ? kF16Nmse : kF32Nmse) + error * error;
}

// Integer results (labels) may differ where two candidates are within rounding of each other.
void compare(const OpCase& c, const Setting& setting, const std::string& name, const Tensor& got, const RefTensor& want) {
  ASSERT_EQ(got.shape, want.shape);
  if (is_float(got.dtype)) {
    const double error = nmse(got, want);
    const bool halves = setting.precision == Precision::F16 || got.dtype == DType::F16;
    EXPECT_LE(error, c.exact && !halves ? 0.0 : storage_nmse(c, halves))
        << c.name << " " << setting.name << " output " << name;
    return;
  }
  int64_t different = 0;
  for (int64_t i = 0; i < got.size(); ++i) different += get(got, i) != want.data[i];
  const double allowed = c.exact ? 0 : setting.precision == Precision::F16 ? 0.01 : 0.0005;
  EXPECT_LE(static_cast<double>(different), std::ceil(allowed * static_cast<double>(got.size())))
      << c.name << " " << setting.name << " output " << name;
}

class OpTable : public testing::TestWithParam<const OpCase*> {};

TEST_P(OpTable, MatchesReferenceUnderEveryLimit) {
  const OpCase& c = *GetParam();
  const Graph graph = case_graph(c);
  const std::map<std::string, Tensor> inputs = case_inputs(c, 7);
  const std::map<std::string, RefTensor> want = reference::run(graph, inputs);
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(setting.name);
    PlanOptions options = setting.options;
    if (c.exact) options.conv.winograd = false;  // its transforms round
    const Plan plan = make_plan(optimize(graph, setting.precision), setting.limits, options);
    ASSERT_NO_THROW(check(plan, setting.limits));
    Executor executor(test_device(), plan);
    EXPECT_EQ(executor.allocated_bytes(), plan.peak_bytes());
    const RunResult result = executor.run(inputs);
    for (const auto& [name, expected] : want) compare(c, setting, name, result.outputs.at(name), expected);
  }
}

std::vector<const OpCase*> all_cases() {
  std::vector<const OpCase*> cases;
  for (const OpCase& c : op_cases()) cases.push_back(&c);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, OpTable, testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return tested.param->name; });

}  // namespace
}  // namespace gyrus::test
