#include "volume/grid.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "volume/restore.h"

namespace gyrus {
namespace {

constexpr const char* kDirections[3] = {"RL", "AP", "SI"};

int direction_of(char letter) {
  for (int d = 0; d < 3; ++d)
    if (letter == kDirections[d][0] || letter == kDirections[d][1]) return d;
  return -1;
}

// One axis of the result: which of the scan's, whether from its other end, how many voxels of which size.
struct AxisPlan {
  int from = 0;
  bool flipped = false;
  int64_t extent = 0;
  double step = 1;  // voxels of the scan
};

AxisPlan plan_axis(const Volume& scan, const std::string& codes, const GridOptions& options, int axis) {
  AxisPlan out;
  out.from = axis;
  if (!options.orientation.empty()) {
    const char wanted = options.orientation[static_cast<size_t>(axis)];
    for (int i = 0; i < 3; ++i) {
      const char found = codes[static_cast<size_t>(i)];
      if (direction_of(found) != direction_of(wanted)) continue;
      out.from = i;
      out.flipped = found != wanted;
    }
  }
  const auto from = static_cast<size_t>(out.from);
  out.extent = scan.dims[from];
  const double target = options.spacing[static_cast<size_t>(axis)], own = scan.spacing()[from];
  if (!(target > 0) || std::abs(target - own) < 1e-6 * own) return out;
  out.step = target / own;
  out.extent = static_cast<int64_t>(std::nearbyint(static_cast<double>(out.extent - 1) / out.step)) + 1;
  return out;
}

}  // namespace

bool is_orientation(const std::string& text) {
  bool seen[3] = {false, false, false};
  for (const char letter : text) {
    const int d = direction_of(letter);
    if (d < 0 || seen[d]) return false;
    seen[d] = true;
  }
  return text.size() == 3;
}

Volume grid_for(const Volume& scan, const GridOptions& options) {
  const std::string codes = axis_codes(scan.affine);
  Volume grid;
  Affine affine = scan.affine;
  for (int axis = 0; axis < 3; ++axis) {
    const AxisPlan plan = plan_axis(scan, codes, options, axis);
    grid.dims[static_cast<size_t>(axis)] = plan.extent;
    const auto last = static_cast<double>(scan.dims[static_cast<size_t>(plan.from)] - 1);
    for (int row = 0; row < 3; ++row) {
      const double column = scan.affine(row, plan.from);
      affine(row, axis) = (plan.flipped ? -column : column) * plan.step;
      if (plan.flipped) affine(row, 3) += column * last;
    }
  }
  constexpr int64_t kMostVoxels = int64_t{1} << 31;
  if (voxel_count(grid.dims) > kMostVoxels)
    fail(ErrorCode::InvalidInput, scan.name, "would have ", to_string(grid.dims),
         " voxels at the spacing that the model wants");
  set_affine(grid, affine);
  grid.name = scan.name;
  return grid;
}

bool same_grid(const Volume& a, const Volume& b) {
  if (a.dims != b.dims) return false;
  const Affine map = compose(inverse(a.affine), b.affine);
  for (int corner = 0; corner < 8; ++corner) {
    Vec3d p{};
    for (size_t i = 0; i < 3; ++i) p[i] = (corner >> i & 1) != 0 ? static_cast<double>(a.dims[i] - 1) : 0;
    const Vec3d q = map_point(map, p);
    for (size_t i = 0; i < 3; ++i)
      if (!(std::abs(q[i] - p[i]) < 1e-3)) return false;
  }
  return true;
}

Volume resampled(const Volume& scan, const Volume& grid) {
  Volume values = like(scan, VoxelType::F32);
  const std::vector<float> floats = to_floats(scan);
  std::copy(floats.begin(), floats.end(), values.as<float>());
  Volume out = restore_values(values, grid);
  out.name = scan.name;
  return out;
}

}  // namespace gyrus
