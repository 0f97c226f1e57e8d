#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/volume_support.h"
#include "volume/normalize.h"
#include "volume/volume_tensor.h"

namespace gyrus {
namespace {

using test::counting_volume;
using test::expect_error;

TEST(VolumeTensor, ZIsFastestInTheTensor) {
  const Volume volume = counting_volume({70, 33, 41}, VoxelType::I16, 20000);
  const Tensor tensor = to_tensor(volume);
  EXPECT_EQ(tensor.shape, (Shape{1, 1, 70, 33, 41}));
  for (int64_t x = 0; x < 70; x += 3)
    for (int64_t y = 0; y < 33; ++y)
      for (int64_t z = 0; z < 41; ++z)
        ASSERT_EQ(tensor.as<float>()[(x * 33 + y) * 41 + z], value_at(volume, volume.index(x, y, z)));
  const Volume back = to_volume(tensor, volume);
  EXPECT_EQ(to_floats(back), to_floats(volume));
  EXPECT_EQ(back.affine, volume.affine);
}

TEST(VolumeTensor, LabelsTakeTheSmallestTypeThatHoldsThem) {
  const Volume grid = counting_volume({3, 4, 5}, VoxelType::U8);
  Tensor labels(DType::I32, {1, 3, 4, 5});
  labels.as<int32_t>()[5 + 1] = 200;  // x 0, y 1, z 1
  Volume volume = to_volume(labels, grid);
  EXPECT_EQ(volume.type, VoxelType::U8);
  EXPECT_EQ(value_at(volume, volume.index(0, 1, 1)), 200);
  labels.as<int32_t>()[0] = 300;
  EXPECT_EQ(to_volume(labels, grid).type, VoxelType::I16);
  labels.as<int32_t>()[0] = -40000;
  EXPECT_EQ(to_volume(labels, grid).type, VoxelType::I32);
  expect_error(ErrorCode::InvalidInput, "does not fill", [&] { to_volume(Tensor(DType::U8, {7}), grid); });
  expect_error(ErrorCode::InvalidInput, "not plain uint8", [&] {
    to_tensor(counting_volume({2, 2, 2}, VoxelType::F32), DType::U8);
  });
}

// numpy.quantile's definition, on sorted values.
double plain_quantile(std::vector<float> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto i = static_cast<size_t>(position);
  const double a = values[i], b = values[std::min(i + 1, values.size() - 1)];
  return a + (b - a) * (position - static_cast<double>(i));
}

TEST(Normalize, QuantilesEqualSorting) {
  uint32_t state = 7;
  for (VoxelType type :
       {VoxelType::U8, VoxelType::I8, VoxelType::U16, VoxelType::I16, VoxelType::I32, VoxelType::F32, VoxelType::F64}) {
    for (Dims dims : {Dims{7, 6, 5}, Dims{31, 17, 13}, Dims{1, 1, 2}}) {
      SCOPED_TRACE(to_string(type));
      Volume volume(dims, type);
      visit_elements(volume, [&](const auto* data) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
        for (int64_t i = 0; i < volume.voxels(); ++i) {
          state = state * 1664525u + 1013904223u;
          volume.as<T>()[i] = static_cast<T>(static_cast<int8_t>((state >> 24) & 0x3f));
        }
      });
      for (double slope : {1.0, -0.5}) {
        volume.slope = slope;
        const std::vector<float> values = to_floats(volume);
        for (double q : {0.0, 0.02, 0.5, 0.77, 0.98, 1.0})
          EXPECT_NEAR(quantile(volume, q), plain_quantile(values, q), 1e-9) << q;
      }
    }
  }
}

TEST(Normalize, ScaleAndShift) {
  const Volume volume = counting_volume({10, 10, 10}, VoxelType::U8);  // 0 … 99
  const Normalization minmax = normalization_of(volume, parse_normalize("minmax"));
  EXPECT_DOUBLE_EQ(minmax.scale, 1.0 / 99);
  EXPECT_DOUBLE_EQ(minmax.shift, 0);
  EXPECT_GT(minmax.clamp_high, 1e38);
  const Normalization quantiles = normalization_of(volume, parse_normalize("quantile:0.1,0.9"));
  EXPECT_EQ(quantiles.clamp_low, 0);
  EXPECT_EQ(quantiles.clamp_high, 1);
  EXPECT_NEAR(quantiles.source_low * quantiles.scale + quantiles.shift, 0, 1e-12);
  EXPECT_NEAR(quantiles.source_high * quantiles.scale + quantiles.shift, 1, 1e-12);
  const Normalization none = normalization_of(volume, parse_normalize("none"));
  EXPECT_EQ(none.scale, 1);
  for (const char* bad : {"", "max", "quantile:", "quantile:0.5", "quantile:0.9,0.1", "quantile:0,2", "quantile:a,b"})
    expect_error(ErrorCode::InvalidInput, "is not none", [&] { parse_normalize(bad); });
}

TEST(Normalize, RefusesVolumesWithoutContrastOrWithNaN) {
  const NormalizeOptions minmax{NormalizeKind::MinMax}, quantiles{NormalizeKind::Quantile};
  Volume zeros({4, 4, 4}, VoxelType::F32);
  for (const auto& options : {minmax, quantiles, NormalizeOptions{NormalizeKind::None}})
    expect_error(ErrorCode::InvalidInput, "nothing to segment", [&] { normalization_of(zeros, options); });
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    Volume volume = counting_volume({4, 4, 4}, VoxelType::F32);
    volume.as<float>()[63] = bad;
    for (const auto& options : {minmax, quantiles, NormalizeOptions{NormalizeKind::None}})
      expect_error(ErrorCode::InvalidInput, "NaN or infinite values (1 of 64",
                   [&] { normalization_of(volume, options); });
    EXPECT_EQ(zero_nonfinite(volume), 1);
    EXPECT_NO_THROW(normalization_of(volume, minmax));
  }
  Volume sparse({10, 10, 10}, VoxelType::U8);
  sparse.as<uint8_t>()[5] = 9;
  expect_error(ErrorCode::InvalidInput, "nearly all voxels", [&] { normalization_of(sparse, quantiles); });
}

}  // namespace
}  // namespace gyrus
