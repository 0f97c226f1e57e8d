#pragma once
#include "volume/volume.h"

// To the grid that networks for whole heads expect, and back. The grid, the trilinear interpolation and the robust
// scaling of intensities are those of FastSurfer's conform and niimath's -conform; docs/conform.md says where results
// are identical and where they are only equivalent.

namespace gyrus {

struct ConformOptions {
  int64_t size = 256;           // voxels a side
  double spacing = 1;           // mm
  double high_fraction = 0.98;  // of the nonzero voxels that lie below white; the brightest are clipped
};

struct Conformed {
  Volume volume;          // uint8, axes (L, I, A)
  double source_low = 0;  // the values of the input that became 0 and 255
  double source_high = 0;
};

// Throws InvalidInput where values are not finite or all equal. What had to be decided (a head larger than the grid,
// very thick slices, a shifted centre) is in volume.notices.
Conformed conform(const Volume& volume, const ConformOptions& options = {});

// Already on such a grid: uint8, unscaled, `size` voxels of `spacing` mm a side, axes (L, I, A) without obliqueness.
bool is_conformed(const Volume& volume, const ConformOptions& options = {});

}  // namespace gyrus
