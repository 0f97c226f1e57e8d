#include "core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"

namespace gyrus {
namespace {

TEST(Half, EveryHalfGoesThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    else
      EXPECT_EQ(float_to_half(value), half);
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(half_to_float(float_to_half(1.0f + 1.0f / 2048)), 1.0f);                // a tie, 1 is even
  EXPECT_EQ(half_to_float(float_to_half(1.0f + 3.0f / 2048)), 1.0f + 2.0f / 1024);  // a tie, up to even
  EXPECT_EQ(half_to_float(float_to_half(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(half_to_float(float_to_half(65520.0f))));
  EXPECT_EQ(float_to_half(std::ldexp(1.0f, -25)), 0);  // a tie between 0 and the least half
  EXPECT_EQ(float_to_half(std::ldexp(1.5f, -25)), 1);
}

TEST(Tensor, SetTruncatesAndClampsIntegers) {
  struct Case {
    DType dtype;
    double given, kept;
  };
  for (const Case& c : {Case{DType::U8, 300, 255},
                        {DType::U8, -1, 0},
                        {DType::I32, -2.9, -2},
                        {DType::I32, 1e12, INT32_MAX},
                        {DType::U32, -5, 0},
                        {DType::U32, 4294967295.0, 4294967295.0},
                        {DType::I32, NAN, 0},
                        {DType::I64, -1e12, -1e12},
                        {DType::Bool, 0.25, 1},
                        {DType::Bool, 0, 0}}) {
    Tensor tensor(c.dtype, {2});
    set(tensor, 1, c.given);
    EXPECT_EQ(get(tensor, 1), c.kept) << to_string(c.dtype) << " " << c.given;
    EXPECT_EQ(get(tensor, 0), 0);
  }
}

TEST(Shape, CountsAreChecked) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, 7}), 0);
  EXPECT_EQ(checked_mul(int64_t{1} << 31, int64_t{1} << 31, "t"), int64_t{1} << 62);
  EXPECT_THROW(checked_mul((int64_t{1} << 31) + 1, int64_t{1} << 31, "t"), Error);
  EXPECT_THROW(element_count({-1}), Error);
  EXPECT_EQ(strides_of({2, 3, 4}), (std::vector<int64_t>{12, 4, 1}));
}

}  // namespace
}  // namespace gyrus
