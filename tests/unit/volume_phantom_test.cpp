#include <algorithm>
#include <set>

#include "unit/volume_support.h"
#include "volume/dice.h"
#include "volume/phantom.h"
#include "volume/random.h"

namespace gyrus {
namespace {

using test::expect_error;

uint64_t fingerprint(const Volume& volume) {
  uint64_t h = 0;
  for (std::byte b : volume.data) h = mix(h ^ static_cast<uint64_t>(b));
  return h;
}

constexpr uint64_t kImageFingerprint = 14359234861209061946ull;
constexpr uint64_t kTruthFingerprint = 15147802351805758136ull;

TEST(Phantom, SameSeedSameBytes) {
  const PhantomOptions options{{40, 40, 40}, 3};
  const Phantom a = make_phantom(options), b = make_phantom(options);
  EXPECT_EQ(a.image.data, b.image.data);
  EXPECT_EQ(a.truth.data, b.truth.data);
  const Phantom other = make_phantom({{40, 40, 40}, 4});
  EXPECT_NE(a.image.data, other.image.data);
  EXPECT_NE(a.truth.data, other.truth.data);
  // The same on every platform: only operations that IEEE 754 defines to the last bit are used.
  EXPECT_EQ(fingerprint(a.image), kImageFingerprint);
  EXPECT_EQ(fingerprint(a.truth), kTruthFingerprint);
}

TEST(Phantom, HasEveryTissueInSaneAmounts) {
  for (uint64_t seed : {1ull, 2ull, 77ull}) {
    const Phantom phantom = make_phantom({{64, 64, 64}, seed});
    const double litre_per_voxel = 4.0 * 4 * 4 / 1e6;
    const auto labels = label_overlaps(phantom.truth, phantom.truth);
    ASSERT_EQ(labels.size(), static_cast<size_t>(kTissues));
    const auto litres = [&](Tissue t) {
      return static_cast<double>(labels[static_cast<size_t>(t)].voxels_a) * litre_per_voxel;
    };
    EXPECT_GT(litres(Tissue::Grey), 0.4);
    EXPECT_LT(litres(Tissue::Grey), 0.9);
    EXPECT_GT(litres(Tissue::White), 0.35);
    EXPECT_LT(litres(Tissue::White), 0.8);
    EXPECT_GT(litres(Tissue::Ventricle), 0.02);
    EXPECT_LT(litres(Tissue::Ventricle), 0.12);
    EXPECT_GT(litres(Tissue::Skull), 1);
  }
}

TEST(Phantom, AnySizeFillsTheSameSpace) {
  const Phantom phantom = make_phantom({{33, 20, 47}, 1});
  EXPECT_EQ(axis_codes(phantom.image.affine), "LIA");
  EXPECT_NEAR(phantom.image.spacing()[1], 12.8, 1e-9);
  const Vec3d corner = map_point(phantom.image.affine, {-0.5, -0.5, -0.5});
  EXPECT_NEAR(corner[0], 128, 1e-9);
  EXPECT_NEAR(corner[1], -128, 1e-9);
  EXPECT_NEAR(corner[2], 128, 1e-9);
  expect_error(ErrorCode::InvalidInput, "2 to 2048", [] { make_phantom({{1, 4, 4}}); });
  expect_error(ErrorCode::InvalidInput, "noise", [] { make_phantom({{4, 4, 4}, 1, -1}); });
}

TEST(Dice, CountsByLabel) {
  Volume a({4, 1, 1}, VoxelType::U8), b({4, 1, 1}, VoxelType::I16);
  const uint8_t va[] = {0, 1, 1, 2};
  const int16_t vb[] = {0, 1, 2, 300};
  std::copy(va, va + 4, a.as<uint8_t>());
  std::copy(vb, vb + 4, b.as<int16_t>());
  const auto overlaps = label_overlaps(a, b);
  ASSERT_EQ(overlaps.size(), 4u);
  EXPECT_DOUBLE_EQ(overlaps[0].dice(), 1);
  EXPECT_DOUBLE_EQ(overlaps[1].dice(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(overlaps[2].dice(), 0);
  EXPECT_EQ(overlaps[3].label, 300);
  b.as<int16_t>()[0] = -1;
  expect_error(ErrorCode::InvalidInput, "no label", [&] { label_overlaps(a, b); });
  expect_error(ErrorCode::InvalidInput, "one grid", [&] { label_overlaps(a, Volume({1, 1, 1}, VoxelType::U8)); });
}

}  // namespace
}  // namespace gyrus
