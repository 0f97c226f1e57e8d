// FreeSurfer's numbers, and left and right apart.
#include <cmath>

#include "unit/volume_support.h"
#include "volume/freesurfer.h"
#include "volume/mask.h"

namespace gyrus::test {
namespace {

LabelTable named(const std::vector<std::string>& names) {
  LabelTable table = default_labels(static_cast<int64_t>(names.size()));
  for (size_t i = 0; i < names.size(); ++i) table.entries[i].name = names[i];
  return table;
}

TEST(FreeSurfer, NumbersFollowNames) {
  const FreeSurferLabels found = freesurfer_labels(
      named({"BG", "Hippocampus", "Brain-Stem", "ctx-rh-insula", "Left-Thalamus-Proper*", "ctx-lh-cuneus"}), "net");
  EXPECT_EQ(found.numbers[1].left, 17);
  EXPECT_EQ(found.numbers[1].right, 53);
  EXPECT_EQ(found.numbers[2].left, 16);
  EXPECT_EQ(found.numbers[2].right, 16);
  EXPECT_EQ(found.numbers[3].left, 2035);
  EXPECT_EQ(found.numbers[4].right, 10);
  EXPECT_EQ(found.numbers[5].left, 1005);
  EXPECT_TRUE(found.splits);
  EXPECT_EQ(found.table.entries.size(), 7u);
  EXPECT_FALSE(freesurfer_labels(named({"BG", "Left-Caudate", "Right-Caudate"}), "net").splits);
  expect_error(ErrorCode::Unsupported, "\"brain\"", [] { freesurfer_labels(named({"background", "brain"}), "net"); });
}

// A ball that is turned and off the middle of the grid: its halves are equal, and the right one is right.
TEST(FreeSurfer, TheMidlineFollowsTheHead) {
  Volume labels({40, 44, 48}, VoxelType::U8);
  Affine affine;
  affine.rows[0] = {-1.0, 0.0, 0.0, 30.0};  // x of the voxels runs from right to left
  affine.rows[1] = {0.0, 1.0, 0.0, -10.0};
  affine.rows[2] = {0.0, 0.0, 1.0, 5.0};
  set_affine(labels, affine);
  // Two lobes, one on each side of the plane x = 8 + 0.2 (y - 12).
  const auto offset = [](const Vec3d& p) { return p[0] - 8 - 0.2 * (p[1] - 12); };
  for (int64_t z = 0, i = 0; z < 48; ++z)
    for (int64_t y = 0; y < 44; ++y)
      for (int64_t x = 0; x < 40; ++x, ++i) {
        const Vec3d p = map_point(affine, {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)});
        const double d = offset(p), r = std::hypot(std::abs(d) - 6, p[1] - 12, p[2] - 28);
        labels.as<uint8_t>()[i] = r < 6 ? 1 : 0;
      }
  const Midline found = midline_of(labels);
  EXPECT_NEAR(found.along_y, 0.2, 0.02);
  EXPECT_NEAR(found.along_z, 0, 0.02);
  EXPECT_NEAR(found.at + found.along_y * 12, 8, 0.3);
  const Volume numbers = to_freesurfer(labels, freesurfer_labels(named({"BG", "Hippocampus"}), "net"));
  int64_t wrong = 0, all = 0;
  for (int64_t z = 0, i = 0; z < 48; ++z)
    for (int64_t y = 0; y < 44; ++y)
      for (int64_t x = 0; x < 40; ++x, ++i) {
        if (labels.as<uint8_t>()[i] == 0) continue;
        const Vec3d p = map_point(affine, {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)});
        ++all;
        if (std::abs(offset(p)) > 0.7) wrong += numbers.as<int32_t>()[i] != (offset(p) > 0 ? 53 : 17);
      }
  EXPECT_GT(all, 1000);
  EXPECT_EQ(wrong, 0);
}

TEST(Distance, IsSignedAndInMillimetres) {
  Volume mask({9, 9, 9}, VoxelType::U8);
  Affine affine;
  affine.rows[0] = {2.0, 0.0, 0.0, 0.0};
  affine.rows[1] = {0.0, 1.0, 0.0, 0.0};
  affine.rows[2] = {0.0, 0.0, 1.0, 0.0};
  set_affine(mask, affine);
  for (int64_t z = 2; z < 7; ++z)
    for (int64_t y = 2; y < 7; ++y)
      for (int64_t x = 3; x < 6; ++x) mask.as<uint8_t>()[mask.index(x, y, z)] = 1;
  const Volume distance = signed_distance(mask);
  EXPECT_EQ(distance.type, VoxelType::F32);
  EXPECT_FLOAT_EQ(distance.as<float>()[distance.index(4, 4, 4)], -3);  // three voxels along y or z, 4 mm along x
  EXPECT_FLOAT_EQ(distance.as<float>()[distance.index(1, 4, 4)], 4);
  EXPECT_FLOAT_EQ(distance.as<float>()[distance.index(4, 0, 4)], 2);
  EXPECT_FLOAT_EQ(distance.as<float>()[distance.index(4, 1, 4)], 1);
}

}  // namespace
}  // namespace gyrus::test
