// Training against PyTorch in float64, step by step.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/tensor.h"
#include "support/device_tests.h"
#include "support/training_nets.h"

namespace gyrus::test {
namespace {

class Training : public testing::Test {
 protected:
  void SetUp() override {
    if (test_data().empty()) GTEST_SKIP() << "no test data";
  }
};

double square_sum(const Tensor& t) {
  double sum = 0;
  for (int64_t i = 0; i < t.size(); ++i) sum += get(t, i) * get(t, i);
  return sum;
}

// Σ (a - b)² / Σ b².
double nmse(const Tensor& found, const Tensor& wanted) {
  EXPECT_EQ(found.shape, wanted.shape);
  double sum = 0;
  for (int64_t i = 0; i < wanted.size(); ++i) sum += std::pow(get(found, i) - get(wanted, i), 2);
  return sum / std::max(square_sum(wanted), 1e-300);
}

double largest(const Tensor& t) {
  double most = 0;
  for (int64_t i = 0; i < t.size(); ++i) most = std::max(most, std::abs(get(t, i)));
  return most;
}

double largest_error(const Tensor& found, const Tensor& wanted) {
  double most = 0;
  for (int64_t i = 0; i < wanted.size(); ++i) most = std::max(most, std::abs(get(found, i) - get(wanted, i)));
  return most / std::max(largest(wanted), 1e-30);
}

// Biases before a norm, whose true gradient is zero.
bool is_free(const std::string& name) { return name.find("conv") == 0 && name.find(".bias") != std::string::npos; }

class SmallMeshNet : public Training, public testing::WithParamInterface<const char*> {};

TEST_P(SmallMeshNet, LearnsAsInPyTorch) {
  const TrainingNet net = small_meshnet(GetParam());
  Trainer trainer(device(), net.graph, net.options);
  RunOptions first;
  for (const auto& [name, tensor] : net.captures) first.captures.push_back(name);
  for (const auto& [name, tensor] : net.gradients) first.captures.push_back(kGradientPrefix + name);
  for (size_t t = 0; t < net.losses.size(); ++t) {
    const StepResult step = trainer.step(net.inputs, t == 0 ? first : RunOptions{});
    EXPECT_LE(std::abs(step.loss / net.losses[t] - 1), 1e-5) << "step " << t;
    if (t > 0) continue;
    for (const auto& [name, wanted] : net.captures) EXPECT_LE(nmse(step.outputs.at(name), wanted), 1e-9) << name;
    for (const auto& [name, wanted] : net.gradients) {
      const Tensor& found = step.outputs.at(kGradientPrefix + name);
      if (is_free(name))
        EXPECT_LE(largest(found), 1e-6) << name;
      else
        EXPECT_LE(nmse(found, wanted), 1e-9) << name;
    }
  }
  const std::map<std::string, Tensor> final = trainer.parameters();
  for (const auto& [name, wanted] : net.final)
    EXPECT_LE(is_free(name) ? 0 : largest_error(final.at(name), wanted), 1e-4) << name;
}

INSTANTIATE_TEST_SUITE_P(, SmallMeshNet, testing::Values("adam", "adamw", "sgd"),
                         [](const auto& test) { return std::string(test.param); });

class GoldenNet : public Training, public testing::WithParamInterface<const char*> {};

TEST_P(GoldenNet, LearnsAsInPyTorch) {
  // A software driver compiles its many kernels for more than a minute.
  if (std::string(GetParam()) == "unet2d" && !std::getenv("GYRUS_TEST_FULL"))
    GTEST_SKIP() << "set GYRUS_TEST_FULL to train it";
  const TrainingNet net = golden_net(GetParam());
  Trainer trainer(device(), net.graph, net.options);
  RunOptions first;
  for (const auto& [name, tensor] : net.gradients) first.captures.push_back(kGradientPrefix + name);
  for (size_t t = 0; t < net.losses.size(); ++t) {
    const StepResult step = trainer.step(net.inputs, t == 0 ? first : RunOptions{});
    EXPECT_LE(std::abs(step.loss / net.losses[t] - 1), 1e-4) << "step " << t;
    if (t > 0) continue;
    for (const auto& [name, wanted] : net.gradients)
      EXPECT_LE(largest_error(step.outputs.at(kGradientPrefix + name), wanted), 4e-5) << name;
  }
  const std::map<std::string, Tensor> final = trainer.parameters();
  for (const auto& [name, wanted] : net.final) EXPECT_LE(largest_error(final.at(name), wanted), 1e-3) << name;
}

INSTANTIATE_TEST_SUITE_P(, GoldenNet, testing::Values("meshnet3d", "unet2d", "encoder", "lm"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace gyrus::test
