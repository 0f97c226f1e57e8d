#include "core/wgsl.h"

#include <gtest/gtest.h>

namespace gyrus {
namespace {

TEST(WgslType, HasAName) {
  EXPECT_EQ(to_string(wgsl::f32), "f32");
  EXPECT_EQ(to_string(wgsl::vec4f), "vec4<f32>");
  EXPECT_EQ(to_string(wgsl::vec2u), "vec2<u32>");
  EXPECT_EQ(to_string(WgslType{Scalar::F16, 3}), "vec3<f16>");
  EXPECT_EQ(to_string(WgslType{Scalar::Bool, 4}), "vec4<bool>");
}

TEST(WgslType, KeepsItsLanesUnderAnotherScalar) {
  EXPECT_EQ(with_scalar(wgsl::vec4f, Scalar::I32), (WgslType{Scalar::I32, 4}));
  EXPECT_EQ(with_scalar(wgsl::u32, Scalar::F32), wgsl::f32);
  EXPECT_NE(with_scalar(wgsl::vec2u, Scalar::F32), wgsl::vec4f);
}

TEST(WgslType, ComputesHalvesInSinglesAndBytesInWords) {
  EXPECT_EQ(scalar_of(DType::F16), Scalar::F32);
  EXPECT_EQ(scalar_of(DType::F32), Scalar::F32);
  EXPECT_EQ(scalar_of(DType::I32), Scalar::I32);
  EXPECT_EQ(scalar_of(DType::U32), Scalar::U32);
  EXPECT_EQ(scalar_of(DType::U8), Scalar::U32);
}

}  // namespace
}  // namespace gyrus
