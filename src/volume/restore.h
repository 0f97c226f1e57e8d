#pragma once
#include "volume/volume.h"

// Results on the conformed grid carried back to the grid of the scan.

namespace gyrus {

// Each voxel of `grid` takes the label that fills most of it: by exact shares where the axes of both grids are
// parallel, else by the majority of samples spread over the voxel, each the label of the nearest voxel. Of equals the
// one at its centre, else the smallest; 0 outside. `labels` U8 or I16, unscaled; so is the result, with the header
// fields of `grid`.
Volume restore_labels(const Volume& labels, const Volume& grid);

// Values of an F32 volume, trilinear; 0 outside.
Volume restore_values(const Volume& values, const Volume& grid);

}  // namespace gyrus
