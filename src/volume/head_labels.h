#pragma once
#include <vector>

#include "volume/volume.h"

// A label map of a whole head from a segmentation of its brain, for networks that are trained on images made from label
// maps: without what lies around the brain, they could not tell it from that.

namespace gyrus {

struct HeadLabelOptions {
  double close_mm = 10;  // gaps of the segmentation up to twice this wide belong to the brain: sulci, ventricles
  double grow_mm = 2;    // and so much around it
  int64_t clusters = 5;  // of intensities outside of the brain, beside the air
  int64_t first = 0;     // number of the first new label; 0: behind the segmentation's largest
  int64_t tissues = 0;   // that the brain's labels are joined to, by their mean intensity; 0: they stay
};

struct HeadLabels {
  Volume labels;                 // U8 on the grid of both
  std::vector<int64_t> brain;    // labels that are brain: those of the segmentation and the fluid between them
  std::vector<int64_t> outside;  // the others, with 0, the air
};

// The segmentation's labels stay, or become tissues 1 … from dark to bright; what closing and growing adds is one more
// label. Outside, intensities are
// clustered (k-means): the darkest cluster is 0 where it reaches the border of the volume, else a label of its own, as
// bone and sinuses are. Throws InvalidInput where the grids differ, there are no labels, or over 255 of them.
HeadLabels head_labels(const Volume& scan, const Volume& segmentation, const HeadLabelOptions& options = {});

}  // namespace gyrus
