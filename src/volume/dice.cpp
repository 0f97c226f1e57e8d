#include "volume/dice.h"

#include "core/error.h"

namespace gyrus {

namespace {

constexpr int64_t kLabels = 65536;

size_t label_at(const Volume& volume, int64_t i) {
  const double value =
      volume.type == VoxelType::U8 ? static_cast<double>(volume.as<uint8_t>()[i]) : value_at(volume, i);
  if (!(value >= 0 && value < kLabels))
    fail(ErrorCode::InvalidInput, volume.name, "voxel ", i, " holds ", value, ", which is no label");
  return static_cast<size_t>(value);
}

}  // namespace

std::vector<LabelOverlap> label_overlaps(const Volume& a, const Volume& b) {
  if (a.dims != b.dims)
    fail(ErrorCode::InvalidInput, a.name, "is ", to_string(a.dims), ", ", b.name, " is ", to_string(b.dims),
         "; they must lie on one grid");
  std::vector<LabelOverlap> all(kLabels);
  for (int64_t i = 0; i < a.voxels(); ++i) {
    const size_t la = label_at(a, i), lb = label_at(b, i);
    ++all[la].voxels_a;
    ++all[lb].voxels_b;
    if (la == lb) ++all[la].common;
  }
  std::vector<LabelOverlap> found;
  for (size_t label = 0; label < all.size(); ++label) {
    if (all[label].voxels_a + all[label].voxels_b == 0) continue;
    all[label].label = static_cast<int64_t>(label);
    found.push_back(all[label]);
  }
  return found;
}

}  // namespace gyrus
