#pragma once
#include <cstdint>
#include <vector>

#include "volume/volume.h"

namespace gyrus {

struct LabelOverlap {
  int64_t label = 0;
  int64_t voxels_a = 0;
  int64_t voxels_b = 0;
  int64_t common = 0;
  double dice() const {  // 1 where both are empty
    return voxels_a + voxels_b == 0 ? 1.0
                                    : 2.0 * static_cast<double>(common) / static_cast<double>(voxels_a + voxels_b);
  }
};

// For each label 0 … 65535 that occurs in a or b, in order. Throws InvalidInput where the grids differ in extent or an
// element is no such label.
std::vector<LabelOverlap> label_overlaps(const Volume& a, const Volume& b);

}  // namespace gyrus
