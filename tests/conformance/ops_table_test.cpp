// The op table on a real WebGPU device against the reference executor, under several limits and precisions.
#include <gtest/gtest.h>

#include <cmath>

#include "op_cases.h"
#include "plan/check.h"
#include "reference/reference.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "support/op_bounds.h"

namespace gyrus::test {
namespace {

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

void compare(const OpCase& c, const OpSetting& setting, const std::string& name, const Tensor& got,
             const RefTensor& want) {
  ASSERT_EQ(got.shape, want.shape);
  if (is_float(got.dtype)) {
    EXPECT_LE(nmse(got, want), most_nmse(c, setting, got.dtype)) << c.name << " " << setting.name << " output " << name;
    return;
  }
  int64_t different = 0;
  for (int64_t i = 0; i < got.size(); ++i) different += get(got, i) != want.data[i];
  EXPECT_LE(static_cast<double>(different), most_different(c, setting, got.size()))
      << c.name << " " << setting.name << " output " << name;
}

class OpTable : public testing::TestWithParam<const OpCase*> {};

TEST_P(OpTable, MatchesReferenceUnderEveryLimit) {
  const OpCase& c = *GetParam();
  const Graph graph = case_graph(c);
  const std::map<std::string, Tensor> inputs = case_inputs(c, 7);
  const std::map<std::string, RefTensor> want = reference::run(graph, inputs);
  for (const OpSetting& setting : op_settings(test_device().limits())) {
    SCOPED_TRACE(setting.name);
    const Plan plan = op_plan(c, graph, setting);
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
