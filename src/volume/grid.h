#pragma once
#include <string>

#include "volume/volume.h"

// The grid that a network wants: axes in given directions, voxels of a given size. Nothing is rotated: axes of an
// oblique scan stay oblique, and go to the nearest directions.

namespace gyrus {

struct GridOptions {
  std::string orientation{};  // as axis_codes() gives it, "RAS"; empty: as the scan is
  Vec3d spacing{0, 0, 0};     // mm along the axes of the result; 0: as the scan's
  bool operator==(const GridOptions&) const = default;
};

// Three letters, one for each of left–right, posterior–anterior, inferior–superior.
bool is_orientation(const std::string& text);

// A volume without voxels that lies so. Its first voxel has the centre of one of the scan's; along an axis of n voxels
// of s mm there are round((n - 1) s / t) + 1 of t mm, as in MONAI's Spacing.
Volume grid_for(const Volume& scan, const GridOptions& options);
// Whether voxels of both lie at the same places, to 1/1000 of one.
bool same_grid(const Volume& a, const Volume& b);
// The scan's values there, f32: trilinear, its border's values half a voxel beyond it, then 0.
Volume resampled(const Volume& scan, const Volume& grid);

}  // namespace gyrus
