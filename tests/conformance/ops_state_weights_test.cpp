// Weights that live on the device as a state give what constant ones give: bit for bit through the direct kernel, whose
// arrangement moves numbers only, and within rounding through Winograd, whose weights are then transformed in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/limits.h"
#include "gyrus/memory.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "runtime/executor.h"

namespace gyrus::test {
namespace {

Tensor random(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor t(DType::F32, shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, rng.normal());
  return t;
}

const Shape kInput = {1, 4, 3, 16, 8};

// A convolution of few taps, for which kernels compile soon, and a norm.
Graph network(bool state) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, kInput});
  const auto value = [&](const std::string& name, const Shape& shape, uint64_t seed) {
    const auto tensor = std::make_shared<const Tensor>(random(shape, seed));
    return state ? graph.add_state(name, {DType::F32, shape}, tensor) : graph.add_constant(name, tensor);
  };
  const ValueId y = graph.add("conv", {x, value("weight", {4, 4, 1, 3, 1}, 5), value("bias", {4}, 7)},
                              {{"pads", std::vector<int64_t>{0, 1, 0, 0, 1, 0}}}, "conv");
  graph.add_output("y", graph.add("group_norm", {y}, {{"groups", int64_t{4}}}, "norm"));
  return graph;
}

Tensor run(const Device& device, bool state, bool winograd) {
  PlanOptions options = software_options();
  options.conv.winograd = winograd;
  const Limits limits = intersect(default_limits(), device.adapter().limits);
  const Plan plan = make_plan(optimize(network(state), Precision::F32), limits, options);
  EXPECT_EQ(std::any_of(plan.kernels.begin(), plan.kernels.end(),
                        [](const PlanKernel& kernel) { return kernel.name == "arrange"; }),
            state);
  Executor executor(device, plan);
  return executor.run({{"x", random(kInput, 3)}}).outputs.at("y");
}

TEST(StateWeights, GiveWhatConstantsGive) {
  const Device device = open_device({});
  EXPECT_EQ(run(device, true, false).data, run(device, false, false).data);
  const Tensor constant = run(device, false, true), state = run(device, true, true);
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < constant.size(); ++i) {
    largest = std::max(largest, std::abs(get(constant, i)));
    difference = std::max(difference, std::abs(get(constant, i) - get(state, i)));
  }
  EXPECT_GT(largest, 1);
  EXPECT_LT(difference, 1e-6 * largest);
}

}  // namespace
}  // namespace gyrus::test
