#include "volume/slices.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "volume/normalize.h"
#include "volume/parallel.h"

namespace gyrus {

namespace {

constexpr double kMarginMm = 6;
// A voxel brighter than this fraction of the 98 % quantile belongs to the head.
constexpr double kHeadFraction = 0.15;
constexpr double kMidlineMm = 9;
constexpr int kSubsamples = 3;  // per pixel and direction, for smooth borders of labels

// Which anatomical axes run to the right and down in a picture of the plane, both against their direction.
struct PlaneAxes {
  int across, down, through;
};
PlaneAxes axes_of(Plane plane) {
  switch (plane) {
    case Plane::Sagittal: return {1, 2, 0};
    case Plane::Coronal: return {0, 2, 1};
    case Plane::Axial: break;
  }
  return {0, 1, 2};
}

// Extends a box by every voxel for which `inside(index)` holds.
template <class F>
Box box_where(const AnatomicalGrid& grid, F inside) {
  const auto& n = grid.extent;
  Box box{{n[0], n[1], n[2]}, {-1, -1, -1}};
  for (int64_t s = 0; s < n[2]; ++s)
    for (int64_t a = 0; a < n[1]; ++a)
      for (int64_t r = 0; r < n[0]; ++r) {
        if (!inside(grid.at(r, a, s))) continue;
        const int64_t index[3] = {r, a, s};
        for (size_t i = 0; i < 3; ++i) {
          box.first[i] = std::min(box.first[i], index[i]);
          box.last[i] = std::max(box.last[i], index[i]);
        }
      }
  if (box.last[0] < 0) return {{0, 0, 0}, {n[0] - 1, n[1] - 1, n[2] - 1}};
  for (size_t i = 0; i < 3; ++i) {
    const auto margin = static_cast<int64_t>(std::ceil(kMarginMm / grid.spacing[i]));
    box.first[i] = std::max<int64_t>(0, box.first[i] - margin);
    box.last[i] = std::min(n[i] - 1, box.last[i] + margin);
  }
  return box;
}

uint8_t to_grey(double value, const SliceStyle& style) {
  const double t = (value - style.black) / std::max(1e-30, style.white - style.black);
  return static_cast<uint8_t>(std::lround(255 * std::clamp(t, 0.0, 1.0)));
}

// Everything a picture of one slice needs: pixel → voxel coordinates.
struct SliceMap {
  const AnatomicalGrid& grid;
  PlaneAxes axes;
  int64_t slice;
  double right_end, top_end;      // voxel coordinate at the picture's left and upper border
  double step_across, step_down;  // voxels per pixel

  // Voxel index of the clamped integer coordinates.
  int64_t voxel(int64_t across, int64_t down) const {
    int64_t index[3];
    index[axes.across] = std::clamp<int64_t>(across, 0, grid.extent[static_cast<size_t>(axes.across)] - 1);
    index[axes.down] = std::clamp<int64_t>(down, 0, grid.extent[static_cast<size_t>(axes.down)] - 1);
    index[axes.through] = slice;
    return grid.at(index[0], index[1], index[2]);
  }
  double across_at(double pixel) const { return right_end - pixel * step_across; }
  double down_at(double pixel) const { return top_end - pixel * step_down; }
};

double bilinear(const Volume& volume, const SliceMap& map, double u, double v) {
  const double fu = std::floor(u), fv = std::floor(v);
  const auto iu = static_cast<int64_t>(fu), iv = static_cast<int64_t>(fv);
  const double wu = u - fu, wv = v - fv;
  const double low = value_at(volume, map.voxel(iu, iv)) * (1 - wu) + value_at(volume, map.voxel(iu + 1, iv)) * wu;
  const double high =
      value_at(volume, map.voxel(iu, iv + 1)) * (1 - wu) + value_at(volume, map.voxel(iu + 1, iv + 1)) * wu;
  return low * (1 - wv) + high * wv;
}

// Colours by label value, for quick access.
class Palette {
 public:
  explicit Palette(const LabelTable& table) {
    for (const LabelEntry& entry : table.entries)
      if (entry.value >= 0 && entry.value < 65536) {
        if (static_cast<size_t>(entry.value) >= colours_.size()) colours_.resize(static_cast<size_t>(entry.value) + 1);
        colours_[static_cast<size_t>(entry.value)] = entry.colour;
      }
  }
  Rgb operator[](int64_t value) const {
    return value >= 0 && static_cast<size_t>(value) < colours_.size() ? colours_[static_cast<size_t>(value)]
                                                                      : Rgb{255, 0, 255};
  }

 private:
  std::vector<Rgb> colours_;
};

// Mixes the labels' colours over one pixel.
void tint(uint8_t* pixel, const Volume& labels, const SliceMap& map, const Palette& palette, int x, int y,
          double opacity) {
  double sum[3] = {0, 0, 0};
  int covered = 0;
  for (int j = 0; j < kSubsamples; ++j) {
    const auto v = static_cast<int64_t>(std::floor(map.down_at(y + (j + 0.5) / kSubsamples) + 0.5));
    for (int i = 0; i < kSubsamples; ++i) {
      const auto u = static_cast<int64_t>(std::floor(map.across_at(x + (i + 0.5) / kSubsamples) + 0.5));
      const auto value = static_cast<int64_t>(value_at(labels, map.voxel(u, v)));
      if (value == 0) continue;
      const Rgb colour = palette[value];
      for (size_t c = 0; c < 3; ++c) sum[c] += colour[c];
      ++covered;
    }
  }
  if (covered == 0) return;
  const double weight = opacity * covered / (kSubsamples * kSubsamples);
  for (size_t c = 0; c < 3; ++c)
    pixel[c] = static_cast<uint8_t>(std::lround(pixel[c] * (1 - weight) + weight * sum[c] / covered));
}

int64_t label_under(const Volume& labels, const SliceMap& map, int x, int y) {
  const auto u = static_cast<int64_t>(std::floor(map.across_at(x + 0.5) + 0.5));
  const auto v = static_cast<int64_t>(std::floor(map.down_at(y + 0.5) + 0.5));
  return static_cast<int64_t>(value_at(labels, map.voxel(u, v)));
}

// Colours the pixel where one of its four neighbours has another label.
void outline(uint8_t* pixel, const Volume& labels, const SliceMap& map, const Palette& palette, int x, int y) {
  const int64_t own = label_under(labels, map, x, y);
  if (own == 0) return;
  constexpr int kSteps[4][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
  for (const auto& step : kSteps)
    if (label_under(labels, map, x + step[0], y + step[1]) != own) {
      const Rgb colour = palette[own];
      std::memcpy(pixel, colour.data(), 3);
      return;
    }
}

}  // namespace

AnatomicalGrid anatomical_grid(const Volume& volume) {
  const std::string codes = axis_codes(volume.affine);
  const Vec3d spacing = volume.spacing();
  const int64_t strides[3] = {1, volume.dims[0], volume.dims[0] * volume.dims[1]};
  AnatomicalGrid grid;
  for (size_t v = 0; v < 3; ++v) {
    const size_t axis = codes[v] == 'R' || codes[v] == 'L' ? 0 : codes[v] == 'A' || codes[v] == 'P' ? 1 : 2;
    const bool reversed = codes[v] == 'L' || codes[v] == 'P' || codes[v] == 'I';
    grid.extent[axis] = volume.dims[v];
    grid.spacing[axis] = spacing[v];
    grid.stride[axis] = reversed ? -strides[v] : strides[v];
    if (reversed) grid.origin += strides[v] * (volume.dims[v] - 1);
  }
  return grid;
}

Box head_box(const Volume& volume, const AnatomicalGrid& grid) {
  const double threshold = kHeadFraction * quantile(volume, 0.98);
  return box_where(grid, [&](int64_t i) { return value_at(volume, i) > threshold; });
}

Box label_box(const Volume& labels, const AnatomicalGrid& grid) {
  return box_where(grid, [&](int64_t i) { return value_at(labels, i) != 0; });
}

Image draw_slice(const Volume& volume, const Volume* labels, const LabelTable& table, const AnatomicalGrid& grid,
                 const Box& box, Plane plane, int64_t slice, const SliceStyle& style) {
  if (labels != nullptr) check_same_extents(volume, *labels);
  const PlaneAxes axes = axes_of(plane);
  const auto across = static_cast<size_t>(axes.across), down = static_cast<size_t>(axes.down);
  const auto pixels = [&](size_t axis) {
    const double mm = static_cast<double>(box.last[axis] - box.first[axis] + 1) * grid.spacing[axis];
    return std::clamp(static_cast<int>(std::lround(mm * style.pixels_per_mm)), 1, 8192);
  };
  Image image(pixels(across), pixels(down));
  const SliceMap map{grid,
                     axes,
                     slice,
                     static_cast<double>(box.last[across]) + 0.5,
                     static_cast<double>(box.last[down]) + 0.5,
                     1 / (style.pixels_per_mm * grid.spacing[across]),
                     1 / (style.pixels_per_mm * grid.spacing[down])};
  const Palette palette(table);
  parallel_ranges(image.height, 32, [&](int64_t begin, int64_t end) {
    for (int y = static_cast<int>(begin); y < static_cast<int>(end); ++y)
      for (int x = 0; x < image.width; ++x) {
        uint8_t* pixel = image.pixel(x, y);
        const uint8_t grey = to_grey(bilinear(volume, map, map.across_at(x + 0.5), map.down_at(y + 0.5)), style);
        std::memset(pixel, grey, 3);
        if (labels != nullptr) tint(pixel, *labels, map, palette, x, y, style.opacity);
        if (labels != nullptr && style.contours) outline(pixel, *labels, map, palette, x, y);
      }
  });
  return image;
}

std::array<int64_t, 3> telling_slices(const Volume& labels, const AnatomicalGrid& grid) {
  constexpr size_t kLabels = 256;
  std::array<int64_t, 3> best{};
  const auto& n = grid.extent;
  std::array<std::vector<int64_t>, 3> counts;
  for (size_t axis = 0; axis < 3; ++axis) counts[axis].resize(static_cast<size_t>(n[axis]) * kLabels);
  for (int64_t s = 0; s < n[2]; ++s)
    for (int64_t a = 0; a < n[1]; ++a)
      for (int64_t r = 0; r < n[0]; ++r) {
        const auto label = static_cast<size_t>(static_cast<uint64_t>(value_at(labels, grid.at(r, a, s))) % kLabels);
        if (label == 0) continue;
        ++counts[0][static_cast<size_t>(r) * kLabels + label];
        ++counts[1][static_cast<size_t>(a) * kLabels + label];
        ++counts[2][static_cast<size_t>(s) * kLabels + label];
      }
  const Box box = label_box(labels, grid);
  const double middle = 0.5 * static_cast<double>(box.first[0] + box.last[0]);
  for (size_t axis = 0; axis < 3; ++axis) {
    double best_score = 0;
    best[axis] = n[axis] / 2;
    for (int64_t i = 0; i < n[axis]; ++i) {
      // The plane between the hemispheres is mostly gap.
      const double aside = axis == 0 ? std::abs(static_cast<double>(i) - middle) * grid.spacing[0] : kMidlineMm;
      if (aside < kMidlineMm) continue;
      double score = 0;  // roots: a second label in sight counts for more than a larger first one
      for (size_t label = 1; label < kLabels; ++label)
        score += std::sqrt(static_cast<double>(counts[axis][static_cast<size_t>(i) * kLabels + label]));
      if (score > best_score) {
        best_score = score;
        best[axis] = i;
      }
    }
  }
  return best;
}

}  // namespace gyrus
