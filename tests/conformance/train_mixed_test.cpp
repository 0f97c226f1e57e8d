// Mixed precision: maps in halves, parameters in singles, and a loss that is scaled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "support/device_tests.h"
#include "support/test_data.h"
#include "support/training_nets.h"

namespace gyrus::test {
namespace {

// Halves have 11 bits: 5e-4 for each map; ten layers and fifty steps of Adam gather some of them.
constexpr double kMixedLoss = 0.02;

TrainerOptions mixed(TrainerOptions options, double scale = 1024) {
  options.program.precision = Precision::F16;
  options.training.loss_scaling = LossScaling{.start = scale, .patience = 10};
  return options;
}

TEST(MixedPrecision, LossesFollowThoseOfSingles) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const TrainingNet net = small_meshnet("adam");
  Trainer halves(device(), net.graph, mixed(net.options));
  double worst = 0;
  for (size_t i = 0; i < net.losses.size(); ++i) {
    const StepResult made = halves.step(net.inputs);
    EXPECT_TRUE(made.updated) << i;
    worst = std::max(worst, std::abs(made.loss / net.losses[i] - 1));
  }
  EXPECT_LE(worst, kMixedLoss);
  EXPECT_GT(worst, 1e-6) << "maps are not stored in halves";
  EXPECT_EQ(halves.loss_scale(), 1024 * 32) << "50 good updates with a patience of 10";
  EXPECT_EQ(halves.skipped(), 0);
  for (const auto& [name, tensor] : halves.parameters()) EXPECT_EQ(tensor.dtype, DType::F32) << name;
}

TEST(MixedPrecision, AnOverflowIsSkippedAndTheScaleHalved) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const TrainingNet net = small_meshnet("adam");
  TrainerOptions options = mixed(net.options, 0x1p39);
  options.training.loss_scaling->most = 0x1p39;
  Trainer trainer(device(), net.graph, options);
  const auto before = trainer.parameters();
  StepResult made = trainer.step(net.inputs);
  ASSERT_TRUE(made.skipped);
  EXPECT_FALSE(made.updated);
  EXPECT_EQ(made.outputs.count(kOverflow), 0u);
  EXPECT_EQ(trainer.updates(), 0);
  EXPECT_EQ(trainer.skipped(), 1);
  EXPECT_EQ(trainer.loss_scale(), 0x1p38);
  for (const auto& [name, tensor] : trainer.parameters()) EXPECT_EQ(tensor.data, before.at(name).data) << name;
  const double first = made.loss;
  int tries = 1;
  for (; made.skipped && tries < 60; ++tries) {
    EXPECT_EQ(made.loss, first);
    made = trainer.step(net.inputs);
  }
  EXPECT_LT(tries, 40) << "it recovers";
  EXPECT_EQ(trainer.updates(), 1);
  EXPECT_EQ(trainer.skipped(), tries - 1);
  // The rest is as if nothing had been skipped.
  for (size_t i = 1; i < 10; ++i) EXPECT_NEAR(trainer.step(net.inputs).loss / net.losses[i], 1, kMixedLoss) << i;

  Trainer other(device(), net.graph, options);
  other.load(trainer.save());
  EXPECT_EQ(other.loss_scale(), trainer.loss_scale());
  EXPECT_EQ(other.skipped(), trainer.skipped());
  EXPECT_EQ(other.step(net.inputs).loss, trainer.step(net.inputs).loss);
}

// A gradient that is infinite though the loss is not.
TEST(MixedPrecision, CollectedOverflowsSkipTheUpdate) {
  Graph graph;
  const Value w = graph.parameter("w", Tensor(DType::F32, {3})), x = graph.input("x", DType::F32, {3});
  graph.output("loss", reduce_sum(sqrt(w) * x));
  TrainerOptions options;
  options.training.accumulate = 2;
  options.training.average = 0.9;
  options.training.loss_scaling = LossScaling{.start = 16, .patience = 1, .least = 2};
  Trainer trainer(device(), graph, options);
  Tensor ones(DType::F32, {3});
  for (int64_t i = 0; i < 3; ++i) set(ones, i, 1);
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(trainer.step({{"x", ones}}).skipped) << "it only collects";
    EXPECT_TRUE(trainer.step({{"x", ones}}).skipped);
    EXPECT_EQ(trainer.loss_scale(), 8 >> round);
  }
  EXPECT_FALSE(trainer.step({{"x", ones}}).skipped);
  try {
    trainer.step({{"x", ones}});
    FAIL() << "there is no smaller scale";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NonFinite);
    EXPECT_THAT(error.what(), testing::HasSubstr("gradients of step 1 are not finite at the least loss scale, 2;"));
  }
  EXPECT_EQ(trainer.parameters().at("w").data, Tensor(DType::F32, {3}).data);
  EXPECT_EQ(trainer.memory().read("average/w").data, Tensor(DType::F32, {3}).data);
  trainer.set_parameters({{"w", ones}});
  trainer.step({{"x", ones}});
  EXPECT_TRUE(trainer.step({{"x", ones}}).updated) << "what was collected is gone";
  EXPECT_EQ(trainer.loss_scale(), 4);
  Trainer plain(device(), graph, TrainerOptions{});
  plain.set_parameters({{"w", ones}});
  plain.step({{"x", ones}});
  EXPECT_EQ(plain.parameters().at("w").data, trainer.parameters().at("w").data) << "a scale of 2 rounds nothing";
}

// The running statistics of a batch norm, which the network itself moves.
TEST(MixedPrecision, AnOverflowMovesNoStatistics) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {2, 3, 5});
  const Value w = graph.parameter("w", Tensor(DType::F32, {2, 3, 5}));
  const Value mean = graph.state("mean", DType::F32, {3}), variance = graph.state("variance", DType::F32, {3});
  const BatchNormResult norm = batch_norm_training(x, mean, variance);
  graph.update(mean, norm.running_mean);
  graph.update(variance, norm.running_variance);
  graph.output("loss", reduce_sum(sqrt(w) * norm.y));  // whose slope at 0 is infinite
  for (const int64_t accumulate : {1, 2}) {
    TrainerOptions options;
    options.training.accumulate = accumulate;
    options.training.loss_scaling = LossScaling{.start = 4};
    Trainer trainer(device(), graph, options);
    const Tensor zeros(DType::F32, {3});
    const Tensor input = numbers({2, 3, 5});
    for (int64_t i = 0; i < accumulate; ++i) trainer.step({{"x", input}});
    EXPECT_EQ(trainer.skipped(), 1);
    for (const char* name : {"mean", "variance"}) EXPECT_EQ(trainer.memory().read(name).data, zeros.data) << name;
    Tensor ones(DType::F32, {2, 3, 5});
    for (int64_t i = 0; i < ones.size(); ++i) set(ones, i, 1);
    trainer.set_parameters({{"w", ones}});
    for (int64_t i = 0; i < accumulate; ++i) trainer.step({{"x", input}});
    EXPECT_EQ(trainer.updates(), 1);
    for (const char* name : {"mean", "variance"}) EXPECT_NE(trainer.memory().read(name).data, zeros.data) << name;
    // Nor does a loss that is not finite, or the run that finds out why.
    const std::vector<std::byte> before = trainer.save();
    Tensor broken = input;
    set(broken, 4, std::nan(""));
    EXPECT_THROW(trainer.step({{"x", broken}}), Error);
    EXPECT_EQ(trainer.save(), before);
  }
}

TEST(MixedPrecision, RefusesScalesThatMakeNoSense) {
  if (test_data().empty()) GTEST_SKIP() << "no test data";
  const TrainingNet net = small_meshnet("adam");
  TrainerOptions options = net.options;
  options.training.loss_scaling = LossScaling{.start = 0.5};
  try {
    Trainer(device(), net.graph, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("[loss_scaling] goes from 1 over 0.5"));
  }
}

}  // namespace
}  // namespace gyrus::test
