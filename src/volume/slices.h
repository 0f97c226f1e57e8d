#pragma once
#include <array>
#include <cstdint>

#include "volume/image.h"
#include "volume/volume.h"

// Slices of a volume as pictures, however its axes lie: patient's right on the left side, front and top up.

namespace gyrus {

enum class Plane : uint8_t { Sagittal, Coronal, Axial };  // the axis (R, A, S) that it is perpendicular to

// A view of a grid along the anatomical axes: index (r, a, s) counts voxels towards right, front and top.
struct AnatomicalGrid {
  std::array<int64_t, 3> extent{};  // along R, A, S
  std::array<int64_t, 3> stride{};  // in voxels of the volume, may be negative
  std::array<double, 3> spacing{};  // mm
  int64_t origin = 0;               // voxel index of (0, 0, 0)
  int64_t at(int64_t r, int64_t a, int64_t s) const { return origin + r * stride[0] + a * stride[1] + s * stride[2]; }
};
AnatomicalGrid anatomical_grid(const Volume& volume);

// A range of voxels along each anatomical axis, first and last included.
struct Box {
  std::array<int64_t, 3> first{};
  std::array<int64_t, 3> last{};
};
// Where the scan is brighter than its background, with a margin.
Box head_box(const Volume& volume, const AnatomicalGrid& grid);
// Where labels are not zero; the whole grid where all are.
Box label_box(const Volume& labels, const AnatomicalGrid& grid);

struct SliceStyle {
  double pixels_per_mm = 2;
  double black = 0;  // values shown as black and white
  double white = 255;
  double opacity = 0.6;   // of the labels' colours
  bool contours = false;  // the outlines of labels, opaque
};

// One slice, grey; with `labels` (same grid, or nullptr) in colours over it.
Image draw_slice(const Volume& volume, const Volume* labels, const LabelTable& table, const AnatomicalGrid& grid,
                 const Box& box, Plane plane, int64_t slice, const SliceStyle& style);

// For each plane the slice that shows most: large areas of many labels.
std::array<int64_t, 3> telling_slices(const Volume& labels, const AnatomicalGrid& grid);

}  // namespace gyrus
