#pragma once
#include <string>
#include <vector>

#include "volume/image.h"
#include "volume/labels.h"
#include "volume/volume.h"

// Pictures of results. Orientation letters stand at the borders: patient's right is on the left side.

namespace gyrus {

struct PictureOptions {
  std::string title;                // above the slices; none where empty
  std::vector<std::string> values;  // one text per entry of the label table, shown in the legend; may be empty
  double opacity = 0.6;
};

// Axial, coronal and sagittal slices: the scan above, the same with the labels in colours below, and a legend.
Image picture_of_slices(const Volume& scan, const Volume& labels, const LabelTable& table,
                        const PictureOptions& options = {});

// How labels lie over the scan.
struct OverlayStyle {
  double opacity = 0.5;   // of their areas
  bool contours = false;  // draw their outlines
};

struct MosaicOptions {
  std::string title;
  int columns = 6;        // slices of each plane
  int tile_height = 200;  // pixels, of the tallest slice
  OverlayStyle overlay;
  bool legend = true;
};

// Rows of axial, coronal and sagittal slices through the labelled part, with the labels in colours and a legend of
// those that occur.
Image picture_mosaic(const Volume& scan, const Volume& labels, const LabelTable& table,
                     const MosaicOptions& options = {});

}  // namespace gyrus
