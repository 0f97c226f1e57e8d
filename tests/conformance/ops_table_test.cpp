// The op table on a real WebGPU device against the reference executor, under several limits and precisions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "cpu/network.h"
#include "gyrus/device.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "plan/check.h"
#include "reference/bounds.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "support/op_bounds.h"

namespace gyrus::test {
namespace {

Device& test_device(bool browser = false) {
  const auto open = [](const Limits& limits) {
    DeviceOptions options;
    options.limits = limits;
    return open_device(options);
  };
  static Device device = open(choose_adapter("webgpu").limits);
  static Device like_a_browser = open(default_limits());
  return browser ? like_a_browser : device;
}

void compare(const OpCase& c, const OpSetting& setting, const std::string& name, const Tensor& got,
             const RefTensor& want) {
  ASSERT_EQ(got.shape, want.shape);
  if (is_float(got.dtype)) {
    const reference::Difference d = reference::difference(got, want);
    EXPECT_LE(d.nmse, most_nmse(c, setting, got.dtype)) << c.name << " " << setting.name << " output " << name;
    EXPECT_LE(d.largest, most_largest(c, setting, got.dtype)) << c.name << " " << setting.name << " output " << name;
    return;
  }
  int64_t different = 0;
  for (int64_t i = 0; i < got.size(); ++i) different += get(got, i) != want.data[i];
  EXPECT_LE(static_cast<double>(different), most_different(c, setting, got.size()))
      << c.name << " " << setting.name << " output " << name;
}

std::string texts_of(const Plan& plan) {
  std::string all;
  for (const PlanKernel& kernel : plan.kernels) all += kernel.wgsl;
  return all;
}

class OpTable : public testing::TestWithParam<const OpCase*> {};

TEST_P(OpTable, MatchesReferenceUnderEveryLimit) {
  const OpCase& c = *GetParam();
  const Graph graph = case_graph(c);
  const std::map<std::string, Tensor> inputs = case_inputs(c, 7), others = case_inputs(c, 8);
  const std::map<std::string, RefTensor> want = reference::run(graph, inputs);
  const bool everything = std::getenv("GYRUS_TEST_FULL") != nullptr;
  std::set<std::string> compiled;
  for (const OpSetting& setting : op_settings(test_device().limits())) {
    SCOPED_TRACE(setting.name);
    const Plan plan = op_plan(c, graph, setting);
    ASSERT_NO_THROW(check(plan, setting.limits));
    const bool fresh = compiled.insert(texts_of(plan)).second;
    if (!everything && fresh && left_for_everything(setting, c)) continue;
    Executor executor(test_device(setting.browser), plan);
    EXPECT_EQ(executor.allocated_bytes(), plan.peak_bytes());
    // What a run leaves behind is other than what is wanted, so an element that nothing writes shows.
    if (!c.large && plan.states.empty()) executor.run(others);
    const RunResult result = executor.run(inputs);
    for (const auto& [name, expected] : want) compare(c, setting, name, result.outputs.at(name), expected);
  }
}

// One column more: the executor with the CPU's own kernels.
TEST_P(OpTable, MatchesReferenceOnTheCpu) {
  static const Device processor = open_best("cpu");
  const OpCase& c = *GetParam();
  const Graph graph = case_graph(c);
  const std::map<std::string, Tensor> inputs = case_inputs(c, 7);
  cpu::NetworkOptions options;
  options.kernels.winograd = !c.exact;  // its transforms round
  const auto network = std::make_shared<cpu::Network>(optimize_plain(graph), options);
  std::map<std::string, Tensor> given;
  for (const auto& [name, tensor] : inputs)
    given[name] = is_wide(tensor.dtype) ? narrow(tensor, name, ErrorCode::InvalidInput) : tensor;
  const OpSetting setting{"cpu", default_limits(), Precision::F32, {}};
  const RunResult result = Executor(processor, network, Memory(processor)).run(given);
  for (const auto& [name, expected] : reference::run(graph, inputs))
    compare(c, setting, name, result.outputs.at(name), expected);
}

bool has_winograd(const Plan& plan) {
  return std::any_of(plan.kernels.begin(), plan.kernels.end(),
                     [](const PlanKernel& k) { return k.name.find("winograd") != std::string::npos; });
}

// What real GPUs run is not left for the day when everything is asked for.
TEST(OpSettings, WinogradIsAmongTheQuickOnes) {
  std::map<std::string, int> plans;
  for (const OpSetting& setting : op_settings(default_limits()))
    for (const OpCase& c : op_cases())
      if (setting.options.conv.winograd && !left_for_everything(setting, c))
        plans[setting.name] += has_winograd(op_plan(c, case_graph(c), setting));
  for (const char* name : {"browser", "gpu", "gpu-f16"}) EXPECT_GE(plans[name], 3) << name;
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
