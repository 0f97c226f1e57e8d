#pragma once
#include "volume/volume.h"

// Brain masks and scans without skull.

namespace gyrus {

// 1 where a label is not zero, grown (positive) or shrunk (negative) by `border_mm` of Euclidean distance between voxel
// centres; U8 on the same grid.
Volume make_mask(const Volume& labels, double border_mm = 0);

// The scan with zero intensity outside the mask; type, slope, intercept and header stay, except where zero is no
// element of a scaled type: then it becomes float32.
Volume apply_mask(const Volume& scan, const Volume& mask);

// Distance in mm from every voxel to the mask's border, between voxel centres: to the nearest voxel of the mask outside
// of it, minus that to the nearest voxel outside of it within; F32 on the same grid.
Volume signed_distance(const Volume& mask);

// Squared distance in mm from every voxel to the nearest voxel where `mask` is `target`; 1e30 where there is none.
std::vector<float> squared_distances(const Volume& mask, bool target);

}  // namespace gyrus
