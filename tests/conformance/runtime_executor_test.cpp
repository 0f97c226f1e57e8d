#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "conformance/runtime_plans.h"
#include "core/error.h"

namespace gyrus {
namespace {

using namespace gyrus::testing;
using ::testing::HasSubstr;

float chain(float x) { return 3 * (2 * x + 1) - 1; }

void expect_chain(const Tensor& x, const Tensor& y) {
  ASSERT_EQ(y.shape, x.shape);
  for (int64_t i = 0; i < x.size(); ++i) ASSERT_EQ(y.as<float>()[i], chain(x.as<float>()[i])) << i;
}

TEST(RuntimeExecutor, RunsEveryKindOfStepTwice) {
  Executor executor(test_device(), chain_plan());
  for (float first : {0.0f, 5.0f}) {
    Tensor x = ramp(1000);
    x.as<float>()[0] = first;
    expect_chain(x, executor.run({{"x", x}}).outputs.at("y"));
  }
}

TEST(RuntimeExecutor, AllocatesWhatThePlanSays) {
  const Plan plan = chain_plan();
  const Device device = open_device();  // without timestamps, which have a buffer of their own
  EXPECT_EQ(device.buffer_bytes(), 0u);
  {
    const Executor executor(device, plan);
    EXPECT_EQ(executor.allocated_bytes(), plan.peak_bytes());
    EXPECT_EQ(device.buffer_bytes(), plan.peak_bytes());
  }
  EXPECT_EQ(device.buffer_bytes(), 0u);
}

TEST(RuntimeExecutor, ReturnsCapturesAndWeights) {
  Executor executor(test_device(), chain_plan());
  RunOptions options;
  options.captures = {"middle", "table"};
  const RunResult result = executor.run({{"x", ramp(1000)}}, options);
  EXPECT_EQ(result.outputs.size(), 3u);
  EXPECT_EQ(result.outputs.at("middle").as<float>()[10], 21.0f);
  for (int i = 0; i < 256; ++i) ASSERT_EQ(result.outputs.at("table").as<float>()[i], static_cast<float>(i));
  EXPECT_EQ(executor.run({{"x", ramp(1000)}}).outputs.size(), 1u);
}

TEST(RuntimeExecutor, MovesMoreThanTheStagingHolds) {
  // 9 Mi floats: 36 MiB each way, over several turns of both staging buffers.
  constexpr uint32_t kCount = (9u << 20) + 12;
  DeviceOptions device_options = test_options();
  Plan plan = chain_plan(kCount, 2u << 20, 65535);
  Executor executor(open_device(device_options), plan);
  const Tensor x = ramp(kCount);
  const Tensor y = executor.run({{"x", x}}).outputs.at("y");
  for (uint32_t i = 0; i < kCount; i += 997) ASSERT_EQ(y.as<float>()[i], chain(x.as<float>()[i])) << i;
  ASSERT_EQ(y.as<float>()[kCount - 1], chain(x.as<float>()[kCount - 1]));
}

TEST(RuntimeExecutor, StagingIsBounded) {
  const Device device = open_device();
  Executor executor(device, chain_plan(9u << 20, 64, 65535));
  for (int i = 0; i < 3; ++i) executor.run({{"x", ramp(9u << 20)}});
  EXPECT_EQ(device.most_staging_bytes(), 64u << 20);  // two of 16 MiB for each direction, of 36 MiB to move
  EXPECT_EQ(device.buffer_bytes(), executor.allocated_bytes() + device.most_staging_bytes());
}

TEST(RuntimeExecutor, PadsOddBytes) {
  // 7 bytes of u8 lie in 8; the eighth arrives as zero and does not come back.
  Plan plan;
  plan.precision = "f32";
  plan.buffers = {{"a", 8, BufferKind::Storage, 0}, {"b", 8, BufferKind::Storage, 0}};
  plan.steps = {Clear{{1, 0, 8}}, Copy{{0, 0, 8}, {1, 0, 8}}};
  plan.inputs = {port("a", DType::U8, {7}, {{0, {0, 0, 8}}})};
  plan.outputs = {port("b", DType::U8, {7}, {{0, {1, 0, 8}}})};
  plan.captures = {port("raw", DType::U32, {2}, {{0, {1, 0, 8}}})};
  Executor executor(test_device(), plan);
  Tensor a(DType::U8, {7});
  for (int i = 0; i < 7; ++i) a.as<uint8_t>()[i] = static_cast<uint8_t>(200 + i);
  RunOptions options;
  options.captures = {"raw"};
  const RunResult result = executor.run({{"a", a}}, options);
  EXPECT_EQ(result.outputs.at("b").data, a.data);
  EXPECT_EQ(result.outputs.at("raw").as<uint32_t>()[1] >> 24, 0u);
}

TEST(RuntimeExecutor, RefusesWrongInputs) {
  Executor executor(test_device(), chain_plan());
  EXPECT_THAT(error_of([&] { executor.run({}); }).what(), HasSubstr("missing"));
  EXPECT_THAT(error_of([&] { executor.run({{"x", ramp(999)}}); }).what(), HasSubstr("[999]"));
  EXPECT_THAT(error_of([&] { executor.run({{"x", ramp(1000)}, {"z", ramp(1)}}); }).what(), HasSubstr("no such input"));
  Tensor torn = ramp(1000);
  torn.data.resize(100);
  EXPECT_EQ(error_of([&] { executor.run({{"x", torn}}); }).code(), ErrorCode::InvalidInput);
  Tensor other(DType::I32, {1000});
  EXPECT_EQ(error_of([&] { executor.run({{"x", other}}); }).code(), ErrorCode::InvalidInput);
}

TEST(RuntimeExecutor, CompileErrorNamesKernelAndLine) {
  Plan plan = chain_plan();
  plan.kernels[0].name = "scale broken";
  plan.kernels[0].wgsl = "// first line\n@compute @workgroup_size(64) fn main() {\n  let x = undeclared;\n}\n";
  const Error error = error_of([&] { Executor(test_device(), plan); });
  EXPECT_EQ(error.code(), ErrorCode::Device);
  EXPECT_THAT(error.what(), HasSubstr("[scale broken]"));
  EXPECT_THAT(error.what(), HasSubstr("line 3:"));
  EXPECT_THAT(error.what(), HasSubstr("undeclared"));
}

TEST(RuntimeExecutor, WrongEntryAndWrongBindingsNameTheKernel) {
  Plan plan = chain_plan();
  plan.kernels[0].entry = "other";
  EXPECT_THAT(error_of([&] { Executor(test_device(), plan); }).what(), HasSubstr("[scale]"));
  plan = chain_plan();
  plan.kernels[0].wgsl.replace(plan.kernels[0].wgsl.find("@binding(2)"), 11, "@binding(3)");
  EXPECT_THAT(error_of([&] { Executor(test_device(), plan); }).what(), HasSubstr("[scale]"));
  // The device is as good as before.
  Executor executor(test_device(), chain_plan());
  expect_chain(ramp(1000), executor.run({{"x", ramp(1000)}}).outputs.at("y"));
}

TEST(RuntimeExecutor, ErrorsInARunAreThrownByIt) {
  // The kernel's parameters are 16 bytes; that 12 are bound shows only when the dispatch is encoded.
  Plan plan = chain_plan();
  std::get<Dispatch>(plan.steps[3]).bindings[2].size = 12;
  Executor executor(test_device(), plan);
  const Error error = error_of([&] { executor.run({{"x", ramp(1000)}}); });
  EXPECT_EQ(error.code(), ErrorCode::Device);
  EXPECT_THAT(error.what(), HasSubstr("12"));
  Executor good(test_device(), chain_plan());
  expect_chain(ramp(1000), good.run({{"x", ramp(1000)}}).outputs.at("y"));
}

TEST(RuntimeExecutor, TwoExecutorsInTwoThreads) {
  Device& device = test_device();
  const auto work = [&](uint32_t count) {
    for (int round = 0; round < 5; ++round) {
      Executor executor(device, chain_plan(count, 64, 7));
      for (int i = 0; i < 5; ++i) expect_chain(ramp(count), executor.run({{"x", ramp(count)}}).outputs.at("y"));
    }
  };
  std::thread other([&] { work(100000); });
  work(70000);
  other.join();
}

TEST(RuntimeExecutor, ProgressGrowsToOne) {
  ExecutorOptions short_submissions;
  short_submissions.submission_seconds = 1e-9;
  Executor executor(test_device(), slow_plan(10), short_submissions);
  std::vector<double> fractions;
  std::vector<std::string> labels;
  RunOptions options;
  options.progress = [&](double fraction, const std::string& label) {
    fractions.push_back(fraction);
    labels.push_back(label);
    return true;
  };
  const RunResult result = executor.run({{"data", ramp(64 * 64)}}, options);
  ASSERT_EQ(fractions.size(), 10u);
  EXPECT_EQ(result.profile.submissions, 10u);
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_GT(fractions.front(), 0);
  EXPECT_EQ(fractions.back(), 1.0);
  EXPECT_EQ(labels.front(), "slow 0");
  EXPECT_EQ(labels.back(), "slow 9");
}

TEST(RuntimeExecutor, CancelsAndStaysUsable) {
  ExecutorOptions short_submissions;
  short_submissions.submission_seconds = 1e-9;
  Executor executor(test_device(), slow_plan(10), short_submissions);
  const Tensor data = ramp(64 * 64);
  const Tensor want = executor.run({{"data", data}}).outputs.at("data");
  int calls = 0;
  RunOptions by_callback;
  by_callback.progress = [&](double, const std::string&) { return ++calls < 3; };
  EXPECT_EQ(error_of([&] { executor.run({{"data", data}}, by_callback); }).code(), ErrorCode::Cancelled);
  EXPECT_EQ(calls, 3);
  std::atomic<bool> flag{true};
  RunOptions by_flag;
  by_flag.cancel = &flag;
  EXPECT_EQ(error_of([&] { executor.run({{"data", data}}, by_flag); }).code(), ErrorCode::Cancelled);
  flag = false;
  EXPECT_EQ(executor.run({{"data", data}}, by_flag).outputs.at("data").data, want.data);
}

TEST(RuntimeExecutor, SubmissionsFollowTheMeasuredPace) {
  // 40 steps that take 0.1 s together, on any device, and say that they cost next to nothing: at first all of them go
  // at once, later in submissions of 0.02 s.
  Plan plan;
  for (uint32_t rounds = 500;; rounds *= 4) {
    plan = slow_plan(40, 64 * 16, rounds);
    Executor executor(test_device(), plan);
    if (executor.run({{"data", ramp(64 * 16)}}).profile.gpu_seconds > 0.1) break;
  }
  for (Step& step : plan.steps) std::get<Dispatch>(step).flops = std::get<Dispatch>(step).bytes = 1e5;
  ExecutorOptions short_submissions;
  short_submissions.submission_seconds = 0.02;
  Executor executor(open_device(test_options()), plan, short_submissions);
  std::vector<uint32_t> submissions;
  for (int i = 0; i < 8; ++i) submissions.push_back(executor.run({{"data", ramp(64 * 16)}}).profile.submissions);
  EXPECT_EQ(submissions.front(), 1u);
  EXPECT_GE(submissions.back(), 4u);
}

TEST(RuntimeExecutor, MeasuresGpuTime) {
  Executor executor(test_device(), slow_plan(4));
  const Profile profile = executor.run({{"data", ramp(64 * 64)}}).profile;
  EXPECT_EQ(profile.gpu_timestamps, test_device().features().timestamp_query);
  EXPECT_GT(profile.gpu_seconds, 0);
  EXPECT_LE(profile.gpu_seconds, profile.wall_seconds);
  EXPECT_TRUE(profile.steps.empty());
  ASSERT_EQ(profile.stages.size(), 3u);
  EXPECT_EQ(profile.stages[1].name, "run");
}

TEST(RuntimeExecutor, ProfilesEveryDispatch) {
  if (!test_device().features().timestamp_query) GTEST_SKIP() << "no timestamps on this device";
  // 2100 dispatches need two query sets.
  for (uint32_t steps : {3u, 2100u}) {
    Executor executor(test_device(), slow_plan(steps, 64, steps < 10 ? 20000 : 10));
    RunOptions options;
    options.profile = true;
    const Profile profile = executor.run({{"data", ramp(64)}}, options).profile;
    ASSERT_EQ(profile.steps.size(), steps);
    for (size_t i = 0; i < profile.steps.size(); ++i) {
      EXPECT_EQ(profile.steps[i].label, "slow " + std::to_string(i));
      EXPECT_EQ(profile.steps[i].kernel, "slow");
      ASSERT_LE(profile.steps[i].begin_ns, profile.steps[i].end_ns);
      if (i > 0) {
        ASSERT_LE(profile.steps[i - 1].begin_ns, profile.steps[i].begin_ns);
      }
    }
    EXPECT_GT(profile.gpu_seconds, 0);
    const std::string table = profile_table(profile);
    EXPECT_THAT(table, HasSubstr("TFLOP/s"));
    EXPECT_THAT(table, HasSubstr("slow"));
    EXPECT_THAT(table, HasSubstr(std::to_string(steps)));
    const auto trace = nlohmann::json::parse(trace_json(profile));
    EXPECT_EQ(trace["traceEvents"].size(), 2 + 3 + steps);
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      EXPECT_GE(event["dur"].get<double>(), 0);
      EXPECT_GE(event["ts"].get<double>(), 0);
    }
  }
}

TEST(RuntimeExecutor, ProfileWithoutTimestampsIsRefused) {
  Executor executor(open_device(), slow_plan(1));
  RunOptions options;
  options.profile = true;
  EXPECT_EQ(error_of([&] { executor.run({{"data", ramp(64 * 64)}}, options); }).code(), ErrorCode::Unsupported);
}

TEST(RuntimeExecutor, PlanWithUnopenedFeatureIsRefused) {
  Plan plan = chain_plan();
  plan.features.shader_f16 = true;
  const Error error = error_of([&] { Executor(open_device(), plan); });
  EXPECT_EQ(error.code(), ErrorCode::OverLimits);
  EXPECT_THAT(error.what(), HasSubstr("shader-f16"));
}

TEST(RuntimeExecutor, PlanSurvivesItsJson) {
  const Plan plan = chain_plan();
  Executor executor(test_device(), parse_plan(to_json(plan), plan.weights));
  expect_chain(ramp(1000), executor.run({{"x", ramp(1000)}}).outputs.at("y"));
}

}  // namespace
}  // namespace gyrus
