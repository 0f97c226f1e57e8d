// Vector loops over strips, on every instruction set.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "core/tensor.h"
#include "cpu/strip_ops.h"
#include "ops/elementwise.h"
#include "unit/cpu_kernels_support.h"

namespace gyrus::cpu {
namespace {

TEST(CpuHalves, EveryHalfIsWidenedExactly) {
  std::vector<uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  for_every_target([&](const char* target) {
    std::vector<float> got(halves.size());
    widen_halves(halves.data(), got.data(), static_cast<int64_t>(got.size()));
    for (size_t i = 0; i < got.size(); ++i) {
      const float want = half_to_float(halves[i]);
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(got[i])) << target << ": " << i;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << target << ": " << i;
    }
  });
}

TEST(CpuHalves, SinglesAreRoundedToTheNearest) {
  // Around every half: itself, what lies between it and the next, and a little to both sides of that.
  std::vector<float> singles;
  for (uint32_t half = 0; half < 65536; ++half) {
    const auto bits = std::bit_cast<uint32_t>(half_to_float(static_cast<uint16_t>(half)));
    for (const uint32_t more : {0u, 1u, 0xfffu, 0x1000u, 0x1001u}) singles.push_back(std::bit_cast<float>(bits + more));
  }
  for (const float tiny : {0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1p-26f, 0x1p-140f, 65519.99f, 65520.0f, 1e30f, 3e38f})
    for (const float sign : {1.0f, -1.0f}) singles.push_back(sign * tiny);
  singles.push_back(1);  // no multiple of any vector
  for_every_target([&](const char* target) {
    std::vector<uint16_t> got(singles.size());
    narrow_singles(singles.data(), got.data(), static_cast<int64_t>(got.size()));
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(singles[i]))
        ASSERT_TRUE(std::isnan(half_to_float(got[i]))) << target << ": " << i;
      else
        ASSERT_EQ(got[i], float_to_half(singles[i])) << target << ": " << singles[i];
    }
  });
}

// Above all what is infinite or no number stays so: results with such values are refused, not shown.
TEST(CpuStrips, ElementwiseRowsTakeEveryValue) {
  const std::vector<float> values = {NAN,   INFINITY, -INFINITY, 0.0f,   -0.0f,   1.0f,   -1.0f, 2.5f,
                                     -2.5f, 1e-3f,    -1e-3f,    100.0f, -100.0f, 1e-30f, 1e30f, -1e30f};
  std::vector<float> first, second;
  for (const float x : values)
    for (const float y : values) first.push_back(x), second.push_back(y);
  const auto count = static_cast<int64_t>(first.size());
  int tested = 0;
  for (const Elementwise& row : elementwise_rows()) {
    if (row.indexed || row.name == "cast") continue;
    const std::vector<double> numbers = row_numbers(row, {});
    for_every_target([&](const char* target) {
      const StripOp op = find_strip_op(row.name, numbers.data());
      if (!op) return;
      ++tested;
      std::vector<float> got(first.size());
      op({{first.data(), second.data()}, got.data(), count, numbers.data()});
      for (size_t i = 0; i < got.size(); ++i) {
        const double args[] = {static_cast<double>(first[i]), static_cast<double>(second[i])};
        const auto want = static_cast<float>(row.value(args, numbers.data()));
        if (std::isfinite(want))
          ASSERT_NEAR(got[i], want, 3e-6 * std::max(1.0f, std::abs(want)))
              << target << " " << row.name << " of " << args[0] << ", " << args[1];
        else
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got[i]) : got[i] == want)
              << target << " " << row.name << " of " << args[0] << ", " << args[1] << " is " << got[i];
      }
    });
  }
  EXPECT_GE(tested, 20);
}

}  // namespace
}  // namespace gyrus::cpu
