#include "runtime/pace.h"

#include <gtest/gtest.h>

namespace gyrus {
namespace {

Step work(double flops, double bytes) { return Dispatch{0, {}, {1, 1, 1}, "work", flops, bytes}; }

TEST(RuntimePace, FollowsWhatIsMeasured) {
  Pace pace(AdapterType::Discrete);
  const Step step = work(1e11, 0);
  const double guess = pace.seconds(step);
  pace.observe(0.05, 0.5);  // ten times slower than thought: believed at once
  EXPECT_NEAR(pace.seconds(step) / guess, 10, 0.1);
  for (int i = 0; i < 40; ++i) {  // really as fast as first guessed
    const double predicted = pace.seconds(step);
    pace.observe(predicted, guess);
  }
  EXPECT_NEAR(pace.seconds(step) / guess, 1, 0.05);
}

TEST(RuntimePace, ShortSubmissionsSayNothing) {
  Pace pace(AdapterType::Discrete);
  const Step step = work(1e11, 0);
  const double guess = pace.seconds(step);
  for (int i = 0; i < 100; ++i) pace.observe(1e-5, 5e-3);
  EXPECT_EQ(pace.seconds(step), guess);
}

TEST(RuntimePace, StaysFiniteWhateverIsMeasured) {
  Pace pace(AdapterType::Software);
  for (int i = 0; i < 100; ++i) pace.observe(1e-9, 1e3);
  EXPECT_NEAR(pace.seconds(work(3e9, 0)), 1e4, 1);  // 10,000 times the guess of a second, and no more
  for (int i = 0; i < 1000; ++i) pace.observe(1e3, 0);
  EXPECT_NEAR(pace.seconds(work(3e9, 0)), 1e-4, 2e-5);
}

TEST(RuntimePace, CountsTrafficOfCopiesAndClears) {
  const Pace pace(AdapterType::Software);
  const double clear = pace.seconds(Clear{{0, 0, 1u << 30}});
  const double copy = pace.seconds(Copy{{0, 0, 1u << 30}, {1, 0, 1u << 30}});
  EXPECT_GT(copy, 1.9 * clear);
  EXPECT_GT(pace.seconds(work(1, 1u << 30)), 0.9 * clear);
}

}  // namespace
}  // namespace gyrus
