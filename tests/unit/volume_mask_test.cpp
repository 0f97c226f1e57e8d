#include <algorithm>
#include <cmath>

#include "unit/volume_support.h"
#include "volume/mask.h"
#include "volume/random.h"

namespace gyrus {
namespace {

TEST(Mask, DistancesEqualTheDefinition) {
  Volume mask({13, 9, 11}, VoxelType::U8);
  Affine affine;
  affine(0, 0) = 0.8;
  affine(1, 1) = 1.3;
  affine(2, 2) = -2.5;
  set_affine(mask, affine);
  for (uint64_t seed = 1; seed < 5; ++seed) {
    for (int64_t i = 0; i < mask.voxels(); ++i)
      mask.as<uint8_t>()[i] = uniform_at(seed, static_cast<uint64_t>(i)) < 0.01 ? 1 : 0;
    const std::vector<float> got = squared_distances(mask, true);
    for (int64_t i = 0; i < mask.voxels(); ++i) {
      double best = 1e30;
      for (int64_t j = 0; j < mask.voxels(); ++j) {
        if (mask.as<uint8_t>()[j] == 0) continue;
        const double dx = 0.8 * static_cast<double>(i % 13 - j % 13),
                     dy = 1.3 * static_cast<double>(i / 13 % 9 - j / 13 % 9),
                     dz = 2.5 * static_cast<double>(i / 117 - j / 117);
        best = std::min(best, dx * dx + dy * dy + dz * dz);
      }
      ASSERT_NEAR(got[static_cast<size_t>(i)], best, 1e-5 * best + 1e-6);
    }
  }
}

TEST(Mask, GrowsAndShrinksByMillimetres) {
  Volume labels({21, 21, 21}, VoxelType::I16);
  set_affine(labels, {});
  labels.as<int16_t>()[labels.index(10, 10, 10)] = 300;
  const auto count = [](const Volume& mask) { return std::count(mask.data.begin(), mask.data.end(), std::byte{1}); };
  EXPECT_EQ(count(make_mask(labels)), 1);
  EXPECT_EQ(count(make_mask(labels, 1)), 7);
  EXPECT_EQ(count(make_mask(labels, std::sqrt(2.0))), 19);
  const Volume ball = make_mask(labels, 5);
  EXPECT_EQ(count(ball), 515);
  // Shrinking by a voxel's width keeps the voxels with all six neighbours.
  int64_t inner = 0;
  for (int64_t i = 0; i < ball.voxels(); ++i) {
    const uint8_t* v = ball.as<uint8_t>() + i;
    inner += v[0] != 0 && v[-1] != 0 && v[1] != 0 && v[-21] != 0 && v[21] != 0 && v[-441] != 0 && v[441] != 0;
  }
  EXPECT_EQ(count(make_mask(ball, -1)), inner);
  EXPECT_EQ(count(make_mask(ball, -50)), 0);
  EXPECT_EQ(count(make_mask(like(labels, VoxelType::U8), 5)), 0);
  test::expect_error(ErrorCode::InvalidInput, "border", [&] { make_mask(labels, std::nan("")); });
}

TEST(Mask, OutsideBecomesZeroInTheScansUnits) {
  Volume scan = test::counting_volume({4, 4, 4}, VoxelType::I16);
  scan.slope = 2;
  scan.intercept = -20;
  Volume mask = like(scan, VoxelType::U8);
  mask.as<uint8_t>()[30] = 1;
  const Volume out = apply_mask(scan, mask);
  EXPECT_EQ(value_at(out, 30), 40);
  EXPECT_EQ(value_at(out, 31), 0);
  EXPECT_EQ(out.type, VoxelType::I16);
  EXPECT_EQ(out.affine, scan.affine);
}

// T-M6: zero is zero whatever the scaling; the type gives way where it must.
TEST(Mask, OutsideIsZeroUnderAnyScaling) {
  struct Case {
    VoxelType type;
    double slope, intercept;
    VoxelType want;
  };
  for (const Case& c : {Case{VoxelType::U8, 1, 10, VoxelType::F32}, Case{VoxelType::I16, 7.11, -1024, VoxelType::F32},
                        Case{VoxelType::U8, -1, 255, VoxelType::U8}, Case{VoxelType::I16, 1, -1024, VoxelType::I16},
                        Case{VoxelType::F32, 3, 1, VoxelType::F32}, Case{VoxelType::F64, 1, 0, VoxelType::F64}}) {
    Volume scan = test::counting_volume({4, 4, 4}, c.type);
    scan.slope = c.slope;
    scan.intercept = c.intercept;
    Volume mask = like(scan, VoxelType::U8);
    mask.as<uint8_t>()[30] = 1;
    const Volume out = apply_mask(scan, mask);
    EXPECT_EQ(out.type, c.want) << to_string(c.type) << " " << c.slope;
    EXPECT_EQ(value_at(out, 31), 0) << to_string(c.type) << " " << c.slope;
    EXPECT_NEAR(value_at(out, 30), value_at(scan, 30), 1e-4);
  }
}

}  // namespace
}  // namespace gyrus
