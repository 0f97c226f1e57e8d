#pragma once
#include <cstdint>
#include <vector>

#include "volume/volume.h"

// Connected components of label maps (U8 or I16, unscaled). Voxels belong together where they have the same label and
// are neighbours; 0 is the background.

namespace gyrus {

enum class Connectivity : uint8_t { Faces = 6, Edges = 18, Corners = 26 };

struct Component {
  int64_t label = 0;
  int64_t voxels = 0;
};

struct Components {
  std::vector<int32_t> ids;     // of each voxel: 0 for the background, else an index into `list` plus 1
  std::vector<Component> list;  // in the order in which their first voxels come
};

Components find_components(const Volume& labels, Connectivity connectivity = Connectivity::Corners);

// Clears all but the largest component of every label (of equals the first). Returns how many voxels were cleared.
// `twins` gets the labels that lost a component at least a third as large, as those do that left and right share.
int64_t keep_largest(Volume& labels, Connectivity connectivity = Connectivity::Corners,
                     std::vector<int64_t>* twins = nullptr);

// Clears components of less than `voxels` voxels. Returns how many voxels were cleared.
int64_t drop_islands(Volume& labels, int64_t voxels, Connectivity connectivity = Connectivity::Corners);

// Fills regions of background that do not reach the border (connected by faces) with the label that touches them most
// (of equals the smallest). Returns how many voxels were filled.
int64_t fill_holes(Volume& labels);

}  // namespace gyrus
