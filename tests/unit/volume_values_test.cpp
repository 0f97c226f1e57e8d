#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/volume_support.h"
#include "volume/grid.h"
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

TEST(Normalize, WaysOfTrainedNetworks) {
  Volume volume({4, 1, 1}, VoxelType::I16);
  for (int i = 0; i < 4; ++i)
    volume.as<int16_t>()[i] = static_cast<int16_t>(std::array{0, 2, 4, 12}[static_cast<size_t>(i)]);
  const auto by = [&](const std::string& how) {
    return normalized(volume, normalization_of(volume, parse_normalize(how)));
  };
  const auto expect = [](const std::vector<float>& found, const std::vector<float>& want) {
    ASSERT_EQ(found.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(found[i], want[i], 1e-6) << i;
  };
  // numpy: (x - x.mean()) / x.std()
  expect(by("zscore"), {-0.9878783f, -0.5488213f, -0.1097643f, 1.6464639f});
  // The same of 2, 4, 12; zeros stay.
  expect(by("zscore:nonzero"), {0, -0.9258201f, -0.4629100f, 1.3887301f});
  expect(by("window:2,6"), {0, 0, 0.5f, 1});
  expect(by("window:2,6,-1,1"), {-1, -1, 0, 1});
  expect(by("clip-zscore:1,10,4,2"), {-1.5f, -1, 0, 3});
  for (const char* text : {"none", "minmax", "quantile:0.02,0.98", "zscore", "zscore:nonzero", "window:-100,300,0,1",
                           "clip-zscore:-10.5,300,4,2"})
    EXPECT_EQ(normalize_text(parse_normalize(text)), text);
  for (const char* bad : {"zscore:", "zscore:all", "window", "window:1", "window:1,x", "window:1,2,3", "window:1,2,3,3",
                          "clip-zscore:1,2", "clip-zscore:1,2,3,-1", "minmax:1,2", "window:1,nan"})
    expect_error(ErrorCode::InvalidInput, "is not none", [&] { parse_normalize(bad); });
}

TEST(Grid, AxesTurnAndSpacingChanges) {
  Volume scan = counting_volume({5, 4, 3}, VoxelType::I16);
  Affine affine;  // axes (L, S, A), 2, 1 and 3 mm
  affine.rows = {{{-2, 0, 0, 50}, {0, 0, 3, -20}, {0, 1, 0, 7}}};
  set_affine(scan, affine);
  ASSERT_EQ(axis_codes(scan.affine), "LSA");
  const Volume turned = resampled(scan, grid_for(scan, {"RAS"}));
  EXPECT_EQ(axis_codes(turned.affine), "RAS");
  EXPECT_EQ(turned.dims, (Dims{5, 3, 4}));
  for (int64_t x = 0; x < 5; ++x)
    for (int64_t y = 0; y < 3; ++y)
      for (int64_t z = 0; z < 4; ++z)
        EXPECT_EQ(value_at(turned, turned.index(x, y, z)), value_at(scan, scan.index(4 - x, z, y)));
  const Volume finer = grid_for(scan, {"", {1, 2, 1.5}});
  EXPECT_EQ(finer.dims, (Dims{9, 3, 5}));  // round(4 * 2 / 1) + 1, round(3 * 1 / 2) + 1, round(2 * 3 / 1.5) + 1
  EXPECT_EQ(map_point(finer.affine, {0, 0, 0}), map_point(scan.affine, {0, 0, 0}));
  const Volume values = resampled(scan, finer);
  EXPECT_EQ(value_at(values, values.index(3, 0, 0)),
            (value_at(scan, scan.index(1, 0, 0)) + value_at(scan, scan.index(2, 0, 0))) / 2);
  EXPECT_TRUE(same_grid(scan, grid_for(scan, {})));
  EXPECT_TRUE(same_grid(scan, grid_for(scan, {"LSA", {2, 1, 3}})));
  EXPECT_FALSE(same_grid(scan, turned));
  EXPECT_TRUE(is_orientation("LIA"));
  for (const char* bad : {"", "RA", "RAR", "ras", "RASS"}) EXPECT_FALSE(is_orientation(bad)) << bad;
}

TEST(VolumeTensor, NetworksMayHaveTheirAxesReversed) {
  const Volume volume = counting_volume({3, 4, 5}, VoxelType::U8);
  for (const AxisOrder order : {AxisOrder::Xyz, AxisOrder::Zyx}) {
    const Shape padded = order == AxisOrder::Xyz ? Shape{6, 4, 7} : Shape{7, 4, 6};
    Tensor tensor(DType::F32, padded);
    put_voxels(to_floats(volume), volume.dims, order, {2, 0, 1}, padded, tensor.as<float>());
    for (int64_t x = 0; x < 3; ++x)
      for (int64_t y = 0; y < 4; ++y)
        for (int64_t z = 0; z < 5; ++z) {
          const int64_t a = 2 + (order == AxisOrder::Xyz ? x : z), c = 1 + (order == AxisOrder::Xyz ? z : x);
          EXPECT_EQ(tensor.as<float>()[(a * padded[1] + y) * padded[2] + c], value_at(volume, volume.index(x, y, z)));
        }
  }
  Tensor labels(DType::U8, {5, 4, 3});
  std::copy(volume.data.begin(), volume.data.end(), labels.data.begin());
  EXPECT_EQ(to_floats(to_volume(labels, volume, AxisOrder::Zyx)), to_floats(volume));
}

}  // namespace
}  // namespace gyrus
