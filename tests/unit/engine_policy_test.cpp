// The decisions that are made for the user: which plan, what after a failure, which results are none.
#include "engine/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/limits.h"

namespace gyrus::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// Bytes of the four plans; 0: there is none.
struct Sizes {
  uint64_t f32 = 8 * kGiB, small_f32 = 6 * kGiB, f16 = 4 * kGiB, small_f16 = 3 * kGiB;
  std::vector<PlanChoice> asked{};

  PlanBytes bytes_of() {
    return [this](const PlanChoice& c) -> std::optional<uint64_t> {
      asked.push_back(c);
      const uint64_t bytes = c.halves ? (c.small_buffers ? small_f16 : f16) : (c.small_buffers ? small_f32 : f32);
      return bytes ? std::optional(bytes) : std::nullopt;
    };
  }
};

Decision choose(PrecisionChoice wish, std::optional<MemoryBudget> budget, Sizes sizes = {}) {
  return choose_plan(wish, budget, sizes.bytes_of());
}

TEST(Policy, AutoTakesTheFirstThatFits) {
  const auto automatic = [](uint64_t gib) { return choose(PrecisionChoice::Auto, MemoryBudget{gib * kGiB}); };
  EXPECT_EQ(automatic(8).plan, (PlanChoice{false, false}));
  EXPECT_EQ(automatic(7).plan, (PlanChoice{false, true}));
  EXPECT_EQ(automatic(5).plan, (PlanChoice{true, false}));
  EXPECT_EQ(automatic(3).plan, (PlanChoice{true, true}));
  EXPECT_EQ(automatic(1).plan, (PlanChoice{true, true})) << "the least, so that the error tells what is needed";
  EXPECT_EQ(choose(PrecisionChoice::Auto, std::nullopt).plan, (PlanChoice{false, false}));
}

TEST(Policy, OnlyWhatIsNotExpectedIsSaid) {
  EXPECT_EQ(choose(PrecisionChoice::Auto, MemoryBudget{8 * kGiB}).notice, "");
  const std::string small = choose(PrecisionChoice::Auto, MemoryBudget{7 * kGiB}).notice;
  EXPECT_THAT(small, HasSubstr("default limits"));
  EXPECT_THAT(small, HasSubstr("8.00 GiB"));
  EXPECT_THAT(small, HasSubstr("6.00 GiB"));
  EXPECT_THAT(choose(PrecisionChoice::Auto, MemoryBudget{5 * kGiB}).notice, HasSubstr("feature maps in f16"));
  const MemoryBudget guess{2 * kGiB, false, "this is a phone"};
  EXPECT_THAT(choose(PrecisionChoice::Auto, guess).notice, HasSubstr("this is a phone"));
}

TEST(Policy, WhatWasAskedForIsKept) {
  EXPECT_EQ(choose(PrecisionChoice::F32, MemoryBudget{8 * kGiB}).plan, (PlanChoice{false, false}));
  EXPECT_EQ(choose(PrecisionChoice::F32, MemoryBudget{7 * kGiB}).plan, (PlanChoice{false, true}));
  EXPECT_EQ(choose(PrecisionChoice::F32, MemoryBudget{1 * kGiB}).plan.halves, false);
  EXPECT_EQ(choose(PrecisionChoice::F16, MemoryBudget{3 * kGiB}).plan, (PlanChoice{true, true}));
  Sizes sizes;
  const MemoryBudget guess{1 * kGiB, false, "a guess"};
  EXPECT_EQ(choose_plan(PrecisionChoice::F32, guess, sizes.bytes_of()).plan, (PlanChoice{false, false}));
  EXPECT_TRUE(sizes.asked.empty()) << "planned without need";
}

TEST(Policy, GuessesOnlyAvoid) {
  const MemoryBudget guess{1 * kGiB, false, "a guess"};
  EXPECT_EQ(choose(PrecisionChoice::Auto, guess).plan, (PlanChoice{true, false}));
}

TEST(Policy, PlansThatDoNotExistArePassedOver) {
  Sizes sizes;
  sizes.f32 = sizes.small_f32 = 0;
  const Decision decision = choose(PrecisionChoice::Auto, std::nullopt, sizes);
  EXPECT_EQ(decision.plan, (PlanChoice{true, false}));
  EXPECT_THAT(decision.notice, HasSubstr("no plan in f32"));
}

TEST(Policy, SmallBuffersAreThoseOfEveryDevice) {
  Limits own = default_limits();
  own.max_buffer_size = own.max_storage_buffer_binding_size = 4 * kGiB;
  own.max_storage_buffers_per_shader_stage = 16;
  EXPECT_EQ(limits_for({false, false}, own), own);
  const Limits cut = limits_for({false, true}, own);
  EXPECT_EQ(cut.max_buffer_size, default_limits().max_buffer_size);
  EXPECT_EQ(cut.max_storage_buffer_binding_size, default_limits().max_storage_buffer_binding_size);
  EXPECT_EQ(cut.max_storage_buffers_per_shader_stage, 16u) << "only sizes cost memory";
}

TEST(Policy, LikelyMemoryOfBrowsers) {
  Limits large = default_limits();
  large.max_buffer_size = large.max_storage_buffer_binding_size = 4 * kGiB;
  EXPECT_EQ(likely_memory(large, {true, 8.0}).bytes, kGiB * 3 / 2);
  EXPECT_EQ(likely_memory(default_limits(), {false, 8.0}).bytes, kGiB * 3 / 2);
  EXPECT_EQ(likely_memory(large, {false, 4.0}).bytes, 2 * kGiB);
  EXPECT_EQ(likely_memory(large, {false, 8.0}).bytes, 4 * kGiB);
  EXPECT_EQ(likely_memory(large, {false, std::nullopt}).bytes, 4 * kGiB);
  EXPECT_FALSE(likely_memory(large, {false, 8.0}).certain);
}

// All attempts of a run that always fails in the same way, as text.
std::vector<std::string> attempts(PrecisionChoice wish, Failure failure) {
  std::vector<std::string> out;
  for (std::optional<Attempt> a = Attempt{wish, {wish == PrecisionChoice::F16, false}}; a && out.size() < 20;
       a = next_attempt(*a, failure))
    out.push_back(to_string(a->plan) + (a->losses ? ", again" : "") + (a->check_finite ? ", checked" : ""));
  return out;
}

TEST(Policy, LessMemoryAfterARefusal) {
  EXPECT_EQ(
      attempts(PrecisionChoice::Auto, Failure::OutOfMemory),
      (std::vector<std::string>{"the plan in f32", "the plan in f16", "the plan in f16 with WebGPU's default limits"}));
  EXPECT_EQ(attempts(PrecisionChoice::F32, Failure::OutOfMemory),
            (std::vector<std::string>{"the plan in f32", "the plan in f32 with WebGPU's default limits"}));
}

TEST(Policy, OnTheCpuHalvesAreAllThatNeedsLessMemory) {
  Attempt first;
  first.on_cpu = true;
  const Attempt next = *next_attempt(first, Failure::OutOfMemory);
  EXPECT_EQ(to_string(next.plan), "the plan in f16");
  EXPECT_EQ(notice_of(first, Failure::OutOfMemory, next),
            "there was not the memory for the plan in f32; trying the plan in f16");
  EXPECT_FALSE(next_attempt(next, Failure::OutOfMemory));
}

TEST(Policy, LostDevicesAreOpenedAgainOnce) {
  EXPECT_EQ(attempts(PrecisionChoice::F16, Failure::DeviceLost),
            (std::vector<std::string>{"the plan in f16", "the plan in f16, again",
                                      "the plan in f16 with WebGPU's default limits",
                                      "the plan in f16 with WebGPU's default limits, again"}));
  const Attempt first;
  const Attempt again = *next_attempt(first, Failure::DeviceLost);
  EXPECT_THAT(notice_of(first, Failure::DeviceLost, again), HasSubstr("again"));
  EXPECT_THAT(notice_of(again, Failure::DeviceLost, *next_attempt(again, Failure::DeviceLost)),
              HasSubstr("was lost with the plan in f32; trying the plan in f16"));
}

TEST(Policy, NonFiniteRunsAreRepeatedOnceWithTheCheck) {
  EXPECT_EQ(attempts(PrecisionChoice::F16, Failure::NonFinite),
            (std::vector<std::string>{"the plan in f16", "the plan in f16, checked"}));
}

template <class F>
Error error_of(F body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::Cancelled, "nothing was thrown"};
}

TEST(Policy, ResultsThatAreNotFinite) {
  Tensor tensor = Tensor::from_floats({4}, {1, -2, 3, 4});
  refuse_nonfinite("logits", tensor);
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    tensor.as<float>()[2] = bad;
    const Error error = error_of([&] { refuse_nonfinite("logits", tensor); });
    EXPECT_EQ(error.code(), ErrorCode::NonFinite);
    EXPECT_THAT(error.what(), HasSubstr("[logits] element 2"));
    EXPECT_THAT(error.hints(), Contains(Hint::SinglePrecision));
  }
  Tensor halves(DType::F16, {2});
  refuse_nonfinite("logits", halves);
  halves.as<uint16_t>()[1] = 0x7c00;
  EXPECT_EQ(error_of([&] { refuse_nonfinite("logits", halves); }).code(), ErrorCode::NonFinite);
  Tensor labels(DType::U8, {2});
  std::memset(labels.data.data(), 0xff, 2);
  refuse_nonfinite("labels", labels);
}

TEST(Policy, NothingButBackground) {
  std::vector<std::byte> labels(1000);
  EXPECT_EQ(error_of([&] { refuse_empty("m", labels, false); }).code(), ErrorCode::Device);
  EXPECT_THAT(error_of([&] { refuse_empty("m", labels, false); }).what(), HasSubstr("GPU"));
  EXPECT_THAT(error_of([&] { refuse_empty("m", labels, true); }).what(), testing::Not(HasSubstr("GPU")));
  EXPECT_EQ(error_of([&] { refuse_empty("m", labels, true); }).code(), ErrorCode::InvalidInput);
  labels[999] = std::byte{1};
  refuse_empty("m", labels, false);
}

TEST(Errors, EveryCodeAndHintHasANameOfItsOwn) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(ErrorCode::NonFinite); ++i)
    names.emplace_back(to_string(static_cast<ErrorCode>(i)));
  for (int i = 0; i <= static_cast<int>(Hint::FetchFromFolder); ++i)
    names.emplace_back(to_string(static_cast<Hint>(i)));
  EXPECT_THAT(names, testing::Not(Contains("unknown")));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace gyrus::test
