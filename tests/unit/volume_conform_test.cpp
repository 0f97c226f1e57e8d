#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "unit/volume_support.h"
#include "volume/conform.h"
#include "volume/dice.h"
#include "volume/phantom.h"
#include "volume/restore.h"

namespace gyrus {
namespace {

using test::expect_error;

struct Difference {
  int64_t within_one = 0;
  int64_t equal = 0;
  int64_t count = 0;
};

Difference compare(const Volume& a, const Volume& b) {
  Difference out;
  out.count = a.voxels();
  for (int64_t i = 0; i < a.voxels(); ++i) {
    const int difference = std::abs(int{a.as<uint8_t>()[i]} - int{b.as<uint8_t>()[i]});
    out.equal += difference == 0;
    out.within_one += difference <= 1;
  }
  return out;
}

// The volume with its axes stored in another order and direction; axis i of the result is axis order[i].
Volume reordered(const Volume& in, const std::array<size_t, 3>& order, const std::array<bool, 3>& flip) {
  Dims dims{};
  Affine affine;
  for (size_t i = 0; i < 3; ++i) {
    dims[i] = in.dims[order[i]];
    for (size_t r = 0; r < 3; ++r) affine.rows[r][i] = in.affine.rows[r][order[i]] * (flip[i] ? -1 : 1);
  }
  Vec3d corner{};
  for (size_t i = 0; i < 3; ++i) corner[order[i]] = flip[i] ? static_cast<double>(dims[i] - 1) : 0;
  const Vec3d origin = map_point(in.affine, corner);
  for (size_t r = 0; r < 3; ++r) affine.rows[r][3] = origin[r];
  Volume out(dims, in.type);
  set_affine(out, affine);
  out.name = in.name;
  int64_t p[3];
  for (p[2] = 0; p[2] < dims[2]; ++p[2])
    for (p[1] = 0; p[1] < dims[1]; ++p[1])
      for (p[0] = 0; p[0] < dims[0]; ++p[0]) {
        int64_t q[3];
        for (size_t i = 0; i < 3; ++i) q[order[i]] = flip[i] ? dims[i] - 1 - p[i] : p[i];
        out.as<uint8_t>()[out.index(p[0], p[1], p[2])] = in.as<uint8_t>()[in.index(q[0], q[1], q[2])];
      }
  return out;
}

// Ties in rounding fall either way when the order of a sum changes; they are rare.
constexpr double kTieShare = 1e-3;

TEST(Conform, EqualsNiimath) {
  GYRUS_NEED_DATA(data);
  const Volume want = read_volume(data + "/volumes/chris_t1_conformed.nii.gz");
  const Conformed got = conform(read_volume(data + "/volumes/chris_t1.nii.gz"));
  ASSERT_EQ(got.volume.dims, want.dims);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 4; ++c) EXPECT_NEAR(got.volume.affine(r, c), want.affine(r, c), 1e-4);
  const Difference difference = compare(got.volume, want);
  EXPECT_GE(static_cast<double>(difference.equal), 0.999 * static_cast<double>(difference.count));
  EXPECT_EQ(difference.within_one, difference.count);
  EXPECT_TRUE(is_conformed(got.volume));
  EXPECT_TRUE(got.volume.notices.empty());
}

TEST(Conform, AllOrientationsGiveOneVolume) {
  GYRUS_NEED_DATA(data);
  const Volume first = conform(read_volume(data + "/nifti/orientations/RAS.nii.gz")).volume;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data + "/nifti/orientations")) {
    SCOPED_TRACE(entry.path().string());
    const Volume native = read_volume(entry.path().string());
    const Volume other = conform(native).volume;
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 4; ++c) ASSERT_NEAR(other.affine(r, c), first.affine(r, c), 1e-3);
    const Difference difference = compare(other, first);
    EXPECT_EQ(difference.within_one, difference.count);
    EXPECT_GE(static_cast<double>(difference.equal), (1 - kTieShare) * static_cast<double>(difference.count));
    ++files;
  }
  EXPECT_EQ(files, 48);
}

TEST(Conform, OrientationDoesNotMatter) {
  // A head of odd and even extents with unequal spacing, stored in all 48 ways.
  const Phantom phantom = make_phantom({{41, 36, 50}, 5});
  const ConformOptions coarse{64, 4};
  const Volume want = conform(phantom.image, coarse).volume;
  const Volume truth = restore_labels(phantom.truth, want);
  for (const std::array<size_t, 3>& order :
       {std::array<size_t, 3>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    for (int flips = 0; flips < 8; ++flips) {
      const std::array<bool, 3> flip{(flips & 1) != 0, (flips & 2) != 0, (flips & 4) != 0};
      const Volume stored = reordered(phantom.image, order, flip);
      const Volume got = conform(stored, coarse).volume;
      for (int r = 0; r < 3; ++r) ASSERT_NEAR(got.affine(r, 3), want.affine(r, 3), 1e-6);
      const Difference difference = compare(got, want);
      EXPECT_EQ(difference.within_one, difference.count);
      EXPECT_GE(static_cast<double>(difference.equal), (1 - kTieShare) * static_cast<double>(difference.count));
      // Labels carried back land on the same anatomy.
      const Volume back = restore_labels(truth, stored);
      const Volume expected = reordered(restore_labels(truth, phantom.image), order, flip);
      for (const LabelOverlap& overlap : label_overlaps(back, expected)) EXPECT_GT(overlap.dice(), 0.999);
    }
  }
}

TEST(Conform, ScalingClipsTheBrightest) {
  Volume volume({64, 64, 64}, VoxelType::F32);
  Affine affine;
  for (int i = 0; i < 3; ++i) affine(i, i) = 2;
  set_affine(volume, affine);
  volume.name = "ramp";
  for (int64_t i = 0; i < volume.voxels(); ++i) volume.as<float>()[i] = static_cast<float>(i % 1000) - 100;
  const Conformed out = conform(volume);
  EXPECT_EQ(out.source_low, -100);
  EXPECT_NEAR(out.source_high, 880, 5);
  // A zero outside the scan stays zero.
  EXPECT_EQ(out.volume.as<uint8_t>()[0], 0);
}

// T-M16: one voxel far off changes nothing but itself, and is said.
TEST(Conform, SingleVoxelsDoNotSpoilTheScaling) {
  Volume plain = test::counting_volume({64, 64, 64}, VoxelType::F32, 251);
  const Volume want = conform(plain).volume;
  for (const float stray : {-1e5f, 1e5f, -3e7f, 1e9f}) {
    Volume odd = plain;
    odd.as<float>()[5] = stray;
    const Conformed got = conform(odd);
    ASSERT_FALSE(got.volume.notices.empty()) << stray;
    EXPECT_NE(got.volume.notices[0].find("far from all others"), std::string::npos) << got.volume.notices[0];
    int64_t far = 0;
    for (int64_t i = 0; i < want.voxels(); ++i)
      far += std::abs(int{got.volume.as<uint8_t>()[i]} - int{want.as<uint8_t>()[i]}) > 3;
    EXPECT_LT(far, 16) << stray;
  }
}

TEST(Conform, AnOddBackgroundIsSaid) {
  Volume volume = test::counting_volume({64, 64, 64}, VoxelType::F32, 251);
  EXPECT_EQ(conform(volume).volume.notices.size(), 1u) << "small, nothing else";
  for (int64_t i = 0; i < volume.voxels() / 4; ++i) volume.as<float>()[i] = -32768;
  EXPECT_NE(conform(volume).volume.notices[0].find("grey levels"), std::string::npos);
}

TEST(Conform, RefusesWhatCannotBeScaled) {
  Volume volume({8, 8, 8}, VoxelType::F32);
  volume.name = "flat";
  expect_error(ErrorCode::InvalidInput, "nothing to conform", [&] { conform(volume); });
  volume.as<float>()[3] = std::nanf("");
  expect_error(ErrorCode::InvalidInput, "NaN", [&] { conform(volume); });
}

TEST(Conform, ATallScanKeepsItsTop) {
  // Head at the top of a scan of 400 mm, as with neck and chest in view.
  Volume volume({64, 64, 100}, VoxelType::U8);
  Affine affine;
  for (int i = 0; i < 3; ++i) affine(i, i) = 4;
  set_affine(volume, affine);
  for (int64_t z = 5; z < 99; ++z)
    for (int64_t y = 20; y < 44; ++y)
      for (int64_t x = 20; x < 44; ++x) volume.as<uint8_t>()[volume.index(x, y, z)] = z > 60 ? 200 : 150;
  const Volume out = conform(volume).volume;
  ASSERT_EQ(out.notices.size(), 2u);  // thick voxels, moved cube
  EXPECT_NE(out.notices[1].find("moved"), std::string::npos);
  const Vec3d top = map_point(inverse(out.affine), {128, 128, 98 * 4});
  EXPECT_GT(top[1], 2);
  EXPECT_LT(top[1], 20);
}

TEST(Conform, SmallAndThinGridsAreReported) {
  const Volume small = test::counting_volume({10, 10, 10}, VoxelType::U8);
  const Volume out = conform(small).volume;
  ASSERT_EQ(out.notices.size(), 1u);
  EXPECT_NE(out.notices[0].find("not a whole head"), std::string::npos);
}

TEST(Restore, TheSameGridGivesTheSameLabels) {
  const Phantom phantom = make_phantom({{48, 48, 48}, 2});
  EXPECT_EQ(restore_labels(phantom.truth, phantom.image).data, phantom.truth.data);
  Volume values = like(phantom.image, VoxelType::F32);
  const std::vector<float> floats = to_floats(phantom.image);
  std::copy(floats.begin(), floats.end(), values.as<float>());
  EXPECT_EQ(restore_values(values, phantom.image).data, values.data);
}

TEST(Restore, MajorityFillsTheVoxel) {
  // Voxels twice as large: each holds eight small ones.
  Volume labels({8, 8, 8}, VoxelType::U8), grid({4, 4, 4}, VoxelType::U8);
  set_affine(labels, {});
  Affine coarse;
  for (int i = 0; i < 3; ++i) {
    coarse(i, i) = 2;
    coarse(i, 3) = 0.5;
  }
  set_affine(grid, coarse);
  for (int64_t i = 0; i < 5; ++i) labels.as<uint8_t>()[labels.index(2 + i % 2, 2 + i / 2 % 2, 2 + i / 4)] = 7;
  const Volume out = restore_labels(labels, grid);
  EXPECT_EQ(out.as<uint8_t>()[out.index(1, 1, 1)], 7);
  EXPECT_EQ(std::count(out.data.begin(), out.data.end(), std::byte{7}), 1);
}

TEST(Restore, EqualsVotingWithoutShortCuts) {
  // Uniform blocks are an optimisation: an oblique grid must get the same labels as plain counting.
  const Phantom phantom = make_phantom({{40, 40, 40}, 9});
  Volume grid({30, 34, 28}, VoxelType::U8);
  Affine affine;
  affine.rows = {{{5.5, 1.2, 0.3, -90}, {-1.1, 5.1, 0.9, -100}, {0.2, -0.8, 6.3, -80}}};
  set_affine(grid, affine);
  const Volume got = restore_labels(phantom.truth, grid);
  const Affine map = compose(inverse(phantom.truth.affine), affine);
  for (int64_t z = 0; z < 28; ++z)
    for (int64_t y = 0; y < 34; ++y)
      for (int64_t x = 0; x < 30; ++x) {
        int votes[kTissues] = {};
        for (int s = 0; s < 27; ++s) {
          const auto sample = [](int64_t voxel, int i) { return static_cast<double>(voxel) + (i - 1) / 3.0; };
          const Vec3d p = map_point(map, {sample(x, s % 3), sample(y, s / 3 % 3), sample(z, s / 9)});
          int64_t q[3];
          bool inside = true;
          for (size_t i = 0; i < 3; ++i) {
            q[i] = static_cast<int64_t>(std::floor(p[i] + 0.5));
            inside = inside && q[i] >= 0 && q[i] < 40;
          }
          ++votes[inside ? phantom.truth.as<uint8_t>()[phantom.truth.index(q[0], q[1], q[2])] : 0];
        }
        const int best = *std::max_element(votes, votes + kTissues);
        ASSERT_EQ(votes[got.as<uint8_t>()[got.index(x, y, z)]], best);
      }
}

TEST(Restore, WeighsExactlyWhereAxesAreParallel) {
  // Target voxels of 0.75 of the label grid's, shifted by a quarter: shares of both neighbours are known.
  Volume labels({4, 1, 1}, VoxelType::U8);
  const uint8_t values[] = {1, 2, 2, 3};
  std::copy(values, values + 4, labels.as<uint8_t>());
  set_affine(labels, Affine{});
  Volume grid({4, 1, 1}, VoxelType::U8);
  Affine affine;
  affine.rows[0] = {0.75, 0, 0, 0.125};  // voxel x covers [0.75 x - 0.25, 0.75 x + 0.5) of centres -0.5 … 3.5
  set_affine(grid, affine);
  const Volume got = restore_labels(labels, grid);
  const uint8_t want[] = {1, 2, 2, 2};  // [-0.25,0.5] 1; [0.5,1.25] 2; [1.25,2] 2; [2,2.75] 0.5 of 2, 0.25 of 3
  for (int64_t x = 0; x < 4; ++x) EXPECT_EQ(got.as<uint8_t>()[x], want[x]) << x;
}

TEST(Restore, RefusesOtherTypes) {
  const Volume floats({4, 4, 4}, VoxelType::F32);
  expect_error(ErrorCode::InvalidInput, "labels must be", [&] { restore_labels(floats, floats); });
  const Volume bytes({4, 4, 4}, VoxelType::U8);
  expect_error(ErrorCode::InvalidInput, "values must be", [&] { restore_values(bytes, bytes); });
}

}  // namespace
}  // namespace gyrus
