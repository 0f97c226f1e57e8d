#include "volume/conform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

#include "core/error.h"
#include "volume/normalize.h"
#include "volume/parallel.h"

namespace gyrus {

namespace {

constexpr int kBins = 1000;  // of the histogram that finds white, as in FreeSurfer
// A voxel brighter than this fraction of white counts as head when the grid is placed.
constexpr float kHeadLevel = 0.15f * 255;
constexpr double kEdge = 1e-6;       // voxels: a coordinate this far outside is a rounding error
constexpr double kTopMargin = 10;    // mm above the head where it does not fit
constexpr double kLostShare = 1e-3;  // of the head that may lie outside before the grid is moved

struct Range {
  float low, high;
};

constexpr int64_t kPart = 1 << 20;  // voxels that one core looks at in a go

struct Extremes {
  float low = 0, high = 0;
  int64_t bad = 0;  // voxels that are not finite
};

Extremes extremes_of(const float* values, int64_t count) {
  Extremes out{values[0], values[0], 0};
  for (int64_t i = 0; i < count; ++i) {
    const float v = values[i];
    out.bad += !(std::abs(v) <= 1e37f);  // larger ones overflow when they are scaled
    out.low = v < out.low ? v : out.low;
    out.high = v > out.high ? v : out.high;
  }
  return out;
}

Range finite_range(const std::vector<float>& values, const Volume& volume) {
  const int64_t count = volume.voxels();
  std::vector<Extremes> parts(static_cast<size_t>((count + kPart - 1) / kPart));
  parallel_ranges(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      parts[static_cast<size_t>(p)] = extremes_of(values.data() + p * kPart, std::min(kPart, count - p * kPart));
  });
  float low = parts[0].low, high = parts[0].high;
  int64_t bad = 0;
  for (const Extremes& part : parts) {
    bad += part.bad;
    low = std::min(low, part.low);
    high = std::max(high, part.high);
  }
  if (bad > 0)
    fail(ErrorCode::InvalidInput, volume.name, "holds NaN or infinite values (", bad, " of ", count,
         " voxels); replace them first, for instance with niimath IN -nan OUT");
  if (low == high)
    fail(ErrorCode::InvalidInput, volume.name, "has the value ", low,
         " in every voxel; there is nothing to conform: check that this is the right file");
  return {low, high};
}

struct Histogram {
  std::vector<int64_t> counts = std::vector<int64_t>(kBins);
  int64_t nonzero = 0;
};

Histogram histogram_of(const std::vector<float>& values, const Range& range) {
  const float bin_size = (range.high - range.low) / kBins;
  Histogram out;
  std::mutex mutex;
  const auto count = static_cast<int64_t>(values.size());
  parallel_ranges(count, kPart, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> own(kBins);
    int64_t own_nonzero = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float v = values[static_cast<size_t>(i)];
      own_nonzero += std::abs(v) >= 1e-15f;
      const float bin = (v - range.low) / bin_size;  // not a number where bins are too narrow for a float
      ++own[static_cast<size_t>(bin < 0 ? 0 : bin < kBins - 1 ? bin : kBins - 1)];
    }
    const std::lock_guard<std::mutex> lock(mutex);
    out.nonzero += own_nonzero;
    for (size_t b = 0; b < own.size(); ++b) out.counts[b] += own[b];
  });
  return out;
}

// The value below which all but the brightest 1 - high_fraction of the nonzero voxels lie, to one of 1000 bins.
float robust_white(const Histogram& histogram, int64_t count, const Range& range, double high_fraction) {
  const float bin_size = (range.high - range.low) / kBins;
  const auto clipped =
      static_cast<int64_t>((1.0f - static_cast<float>(high_fraction)) * static_cast<float>(histogram.nonzero));
  const int64_t wanted = count - clipped;
  int64_t below = histogram.counts[0];
  int bin = 0;
  while (bin < kBins - 1) {
    below += histogram.counts[static_cast<size_t>(bin + 1)];
    if (below >= wanted) break;
    ++bin;
  }
  return static_cast<float>(bin) * bin_size + range.low;
}

// The range without voxels that are few and lie so far from all others that the rest would become a few grey levels:
// below, where they would take more than half of the levels; above, where all others share a twentieth of the bins.
// Most scans have none; theirs is the whole range, as FastSurfer and niimath take it.
Range without_strays(const Histogram& histogram, int64_t count, const Range& range) {
  constexpr double kStray = 1e-5;  // of all voxels
  const auto few = static_cast<int64_t>(kStray * static_cast<double>(count)) + 1;
  int first = 0, last = kBins - 1;
  for (int64_t seen = 0; first < last && (seen += histogram.counts[static_cast<size_t>(first)]) <= few;) ++first;
  for (int64_t seen = 0; last > first && (seen += histogram.counts[static_cast<size_t>(last)]) <= few;) --last;
  const float bin_size = (range.high - range.low) / kBins;
  const int rest = last - first + 1;
  Range out = range;
  if (first > rest) out.low = range.low + static_cast<float>(first) * bin_size;
  if (kBins - 1 - last > 20 * rest) out.high = range.low + static_cast<float>(last + 1) * bin_size;
  return out;
}

// Smallest and largest of the values that lie in a range.
Range tight(const std::vector<float>& values, const Range& range) {
  Range out{range.high, range.low};
  for (const float v : values) {
    if (v < range.low || v > range.high) continue;
    out.low = std::min(out.low, v);
    out.high = std::max(out.high, v);
  }
  return out;
}

// Grey levels between the 2nd and the 98th percentile of what is not the darkest.
double levels_used(const Histogram& histogram, const Range& range, float white) {
  int64_t above = 0;
  for (int b = 1; b < kBins; ++b) above += histogram.counts[static_cast<size_t>(b)];
  int low = 1, high = kBins - 1;
  for (int64_t seen = 0; low < high && (seen += histogram.counts[static_cast<size_t>(low)]) < above / 50;) ++low;
  for (int64_t seen = 0; high > low && (seen += histogram.counts[static_cast<size_t>(high)]) < above / 50;) --high;
  const double bin_size = static_cast<double>(range.high - range.low) / kBins;
  return above == 0 ? 255
                    : 255 * (high - low + 1) * bin_size / std::max(bin_size, static_cast<double>(white - range.low));
}

struct Scaling {
  Range range;
  float white;
};

Scaling scaling_of(const std::vector<float>& values, const Range& all, double high_fraction,
                   std::vector<std::string>& notices) {
  const auto count = static_cast<int64_t>(values.size());
  Range range = all;
  Histogram histogram = histogram_of(values, range);
  constexpr int kRounds = 8;  // each narrows the range by half at least
  for (int round = 0; round < kRounds; ++round) {
    const Range next = without_strays(histogram, count, range);
    if (next.low == range.low && next.high == range.high) break;
    const Range closer = tight(values, next);
    if (!(closer.low < closer.high)) break;
    range = closer;
    histogram = histogram_of(values, range);
  }
  if (range.low != all.low || range.high != all.high)
    notices.push_back(cat("a few voxels lie far from all others (all: ", all.low, " to ", all.high,
                          ", without them: ", range.low, " to ", range.high, "); they were clipped"));
  const float white = robust_white(histogram, count, range, high_fraction);
  if (const double levels = levels_used(histogram, range, white); levels < 16)
    notices.push_back(cat("nearly all intensities share ", std::ceil(levels),
                          " of 256 grey levels: does the background have an odd value (", range.low, ")?"));
  return {range, white};
}

// Axes (L, I, A), the voxel at size / 2 at `centre`.
Affine conformed_affine(const Vec3d& centre, const ConformOptions& options) {
  const double s = options.spacing, half = 0.5 * static_cast<double>(options.size);
  Affine out;
  out.rows = {{{-s, 0, 0, centre[0] + s * half}, {0, 0, s, centre[1] - s * half}, {0, -s, 0, centre[2] + s * half}}};
  return out;
}

// The range of output x for which all three input coordinates lie in [0, extent - 1]. start: coordinates at x = 0.
struct RowRange {
  int64_t first, last;
};
RowRange inside_row(const Vec3d& start, const Vec3d& step, const Dims& dims, int64_t size) {
  double first = 0, last = static_cast<double>(size - 1);
  for (size_t i = 0; i < 3; ++i) {
    const double high = static_cast<double>(dims[i] - 1);
    if (std::abs(step[i]) < 1e-12) {
      if (start[i] < -kEdge || start[i] > high + kEdge) return {0, -1};
      continue;
    }
    const double a = (-kEdge - start[i]) / step[i], b = (high + kEdge - start[i]) / step[i];
    first = std::max(first, std::min(a, b));
    last = std::min(last, std::max(a, b));
  }
  if (first > last) return {0, -1};
  return {static_cast<int64_t>(std::ceil(first)), static_cast<int64_t>(std::floor(last))};
}

// The lower neighbour of a coordinate and the weight of the upper one; the last voxel belongs to the cell before it.
float cell(double coordinate, int64_t extent, int64_t& lower) {
  lower = std::clamp<int64_t>(static_cast<int64_t>(coordinate), 0, extent - 2);
  return std::clamp(static_cast<float>(coordinate - static_cast<double>(lower)), 0.0f, 1.0f);
}

uint8_t to_byte(float v) { return static_cast<uint8_t>(v > 0 ? std::min(v + 0.5f, 255.0f) : 0.0f); }

// Trilinear samples of `in` (extents dims) along every row of the output grid; 0 outside.
void resample(const std::vector<float>& in, const Dims& dims, const Affine& out_to_in, Volume& out) {
  const int64_t nx = dims[0], nxy = dims[0] * dims[1];
  const Vec3d step{out_to_in(0, 0), out_to_in(1, 0), out_to_in(2, 0)};
  parallel_ranges(out.dims[1] * out.dims[2], 256, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto y = static_cast<double>(row % out.dims[1]), z = static_cast<double>(row / out.dims[1]);
      const Vec3d start = map_point(out_to_in, {0, y, z});
      const RowRange range = inside_row(start, step, dims, out.dims[0]);
      uint8_t* to = out.as<uint8_t>() + row * out.dims[0];
      for (int64_t x = range.first; x <= range.last; ++x) {
        const auto dx = static_cast<double>(x);
        const double p[3] = {start[0] + dx * step[0], start[1] + dx * step[1], start[2] + dx * step[2]};
        int64_t i, j, k;
        const float wx = cell(p[0], dims[0], i), wy = cell(p[1], dims[1], j), wz = cell(p[2], dims[2], k);
        const float* c = in.data() + i + j * nx + k * nxy;
        const float a = c[0] + wx * (c[1] - c[0]), b = c[nx] + wx * (c[nx + 1] - c[nx]);
        const float d = c[nxy] + wx * (c[nxy + 1] - c[nxy]), e = c[nxy + nx] + wx * (c[nxy + nx + 1] - c[nxy + nx]);
        const float near = a + wy * (b - a), far = d + wy * (e - d);
        to[x] = to_byte(near + wz * (far - near));
      }
    }
  });
}

// Where the grid's middle lies: the voxel at extent / 2 along each axis, counted towards right, front and top, so that
// a scan has one place however its axes are stored.
Vec3d middle_of(const Volume& volume) {
  const std::string codes = axis_codes(volume.affine);
  Vec3d voxel{};
  for (size_t i = 0; i < 3; ++i) {
    const double half = 0.5 * static_cast<double>(volume.dims[i]);
    const bool reversed = codes[i] == 'L' || codes[i] == 'P' || codes[i] == 'I';
    voxel[i] = reversed ? static_cast<double>(volume.dims[i] - 1) - half : half;
  }
  return map_point(volume.affine, voxel);
}

bool corners_inside(const Volume& volume, const Affine& in_to_out, int64_t size) {
  for (int corner = 0; corner < 8; ++corner) {
    Vec3d voxel{};
    for (size_t i = 0; i < 3; ++i) voxel[i] = (corner >> i & 1) != 0 ? static_cast<double>(volume.dims[i] - 1) : 0.0;
    for (double v : map_point(in_to_out, voxel))
      if (v < -0.5 || v > static_cast<double>(size) - 0.5) return false;
  }
  return true;
}

// How the head's voxels spread along the axes of the conformed grid.
struct Spread {
  int64_t head = 0;
  int64_t outside = 0;
  Vec3d first{}, last{};  // voxels of the grid between which all but a few stray ones lie
};

Spread spread_of(const std::vector<float>& values, const Volume& volume, const Affine& in_to_out, int64_t size) {
  constexpr int64_t kReach = 2048;  // voxels of the grid on either side that are told apart
  std::array<std::vector<int64_t>, 3> counts;
  for (auto& axis : counts) axis.resize(static_cast<size_t>(2 * kReach));
  Spread out;
  for (int64_t z = 0; z < volume.dims[2]; ++z)
    for (int64_t y = 0; y < volume.dims[1]; ++y)
      for (int64_t x = 0; x < volume.dims[0]; ++x) {
        if (values[static_cast<size_t>(volume.index(x, y, z))] < kHeadLevel) continue;
        const Vec3d p = map_point(in_to_out, {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)});
        bool inside = true;
        for (size_t i = 0; i < 3; ++i) {
          const double v = std::floor(p[i] + 0.5);
          inside = inside && v >= 0 && v < static_cast<double>(size);
          ++counts[i][static_cast<size_t>(std::clamp(v + kReach, 0.0, 2.0 * kReach - 1))];
        }
        ++out.head;
        out.outside += !inside;
      }
  for (size_t i = 0; i < 3; ++i) {
    const int64_t stray = out.head / 500;
    int64_t low = 0, high = 2 * kReach - 1;
    for (int64_t seen = 0; low < high && (seen += counts[i][static_cast<size_t>(low)]) <= stray;) ++low;
    for (int64_t seen = 0; high > low && (seen += counts[i][static_cast<size_t>(high)]) <= stray;) --high;
    out.first[i] = static_cast<double>(low - kReach);
    out.last[i] = static_cast<double>(high - kReach);
  }
  return out;
}

// Moves the grid where the head would stick out of it: to the head's middle or, where it is too tall (neck and
// shoulders), so that its top is in.
Affine placed(const std::vector<float>& values, const Volume& volume, const ConformOptions& options,
              std::vector<std::string>& notices) {
  if (!is_usable(volume.affine))
    fail(ErrorCode::InvalidInput, volume.name, "its header puts all voxels in one plane: the affine is singular");
  const Affine affine = conformed_affine(middle_of(volume), options);
  const Affine in_to_out = compose(inverse(affine), volume.affine);
  if (corners_inside(volume, in_to_out, options.size)) return affine;
  const Spread before = spread_of(values, volume, in_to_out, options.size);
  if (static_cast<double>(before.outside) <= kLostShare * static_cast<double>(before.head)) return affine;
  Vec3d shift{};  // voxels of the grid, whole ones
  for (size_t i = 0; i < 3; ++i) {
    const double excess = before.last[i] - before.first[i] + 1 - static_cast<double>(options.size);
    const double centred = 0.5 * (before.first[i] + before.last[i] - static_cast<double>(options.size - 1));
    const bool too_tall = i == 1 && excess > -2 * kTopMargin / options.spacing;  // axis 1 runs from top to bottom
    shift[i] = std::floor(too_tall ? before.first[i] - kTopMargin / options.spacing : centred);
  }
  Affine moved = affine;
  const Vec3d origin = map_point(affine, shift);
  for (int r = 0; r < 3; ++r) moved(r, 3) = origin[static_cast<size_t>(r)];
  const Spread after = spread_of(values, volume, compose(inverse(moved), volume.affine), options.size);
  const double side = static_cast<double>(options.size) * options.spacing;
  const double share = 100 * static_cast<double>(after.outside) / static_cast<double>(after.head);
  notices.push_back(cat("the head reaches beyond a cube of ", side,
                        " mm around the scan's middle; the cube was moved, ", std::round(10 * share) / 10,
                        " % of the head lie outside it"));
  return moved;
}

void add_grid_notices(const Volume& volume, std::vector<std::string>& notices) {
  const Vec3d size = volume.spacing();
  const double thickest = std::max({size[0], size[1], size[2]});
  if (thickest > 3) notices.push_back(cat("voxels up to ", thickest, " mm thick: expect coarse labels"));
  double smallest = 1e9;
  for (size_t i = 0; i < 3; ++i) smallest = std::min(smallest, size[i] * static_cast<double>(volume.dims[i]));
  if (smallest < 100)
    notices.push_back(cat("the scan covers only ", std::round(smallest), " mm along one axis: not a whole head"));
}

}  // namespace

Conformed conform(const Volume& volume, const ConformOptions& options) {
  for (int64_t n : volume.dims)
    if (n < 2) fail(ErrorCode::InvalidInput, volume.name, "is ", to_string(volume.dims), "; a 3-D volume is needed");
  std::vector<float> values = to_floats(volume);
  Conformed out;
  std::vector<std::string> notices;
  const auto [range, white] = scaling_of(values, finite_range(values, volume), options.high_fraction, notices);
  const float scale = white > range.low ? 255.0f / (white - range.low) : 1.0f;
  parallel_ranges(volume.voxels(), 1 << 18, [&, low = range.low](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float& v = values[static_cast<size_t>(i)];
      v = std::clamp(scale * (v - low), 0.0f, 255.0f);
    }
  });
  out.source_low = static_cast<double>(range.low);
  out.source_high = static_cast<double>(white > range.low ? white : range.low + 255.0f);
  out.volume = Volume({options.size, options.size, options.size}, VoxelType::U8);
  out.volume.name = volume.name;
  out.volume.notices = notices;
  add_grid_notices(volume, out.volume.notices);
  const Affine affine = placed(values, volume, options, out.volume.notices);
  set_affine(out.volume, affine);
  resample(values, volume.dims, compose(inverse(volume.affine), affine), out.volume);
  return out;
}

bool is_conformed(const Volume& volume, const ConformOptions& options) {
  if (volume.type != VoxelType::U8 || volume.is_scaled()) return false;
  for (int64_t n : volume.dims)
    if (n != options.size) return false;
  const Affine want = conformed_affine({0, 0, 0}, options);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c)
      if (std::abs(volume.affine(r, c) - want(r, c)) > 1e-3 * options.spacing) return false;
  return true;
}

}  // namespace gyrus
