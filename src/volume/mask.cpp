// Distances: the exact Euclidean transform, one axis after another, each row the lower envelope of parabolas
// (Felzenszwalb and Huttenlocher, "Distance Transforms of Sampled Functions", 2012).
#include "volume/mask.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "volume/parallel.h"

namespace gyrus {

namespace {

constexpr float kFar = 1e30f;

// Room for one row's envelope.
struct Envelope {
  std::vector<float> in, out;
  std::vector<int64_t> vertex;  // positions of the parabolas in the envelope
  std::vector<double> from;     // where each begins
  explicit Envelope(int64_t n)
      : in(static_cast<size_t>(n)), out(in.size()), vertex(in.size()), from(static_cast<size_t>(n + 1)) {}
};

// out[i] = min over j of in[j] + (step * (i - j))², for in[j] below kFar.
void transform_row(Envelope& e, int64_t n, double step) {
  const double s2 = step * step;
  int64_t count = 0;
  for (int64_t q = 0; q < n; ++q) {
    const auto height = static_cast<double>(e.in[static_cast<size_t>(q)]);
    if (height >= static_cast<double>(kFar)) continue;
    const auto position = static_cast<double>(q);
    double start = -1e18;
    while (count > 0) {
      const auto last = static_cast<size_t>(count - 1);
      const auto other = static_cast<double>(e.vertex[last]);
      const auto other_height = static_cast<double>(e.in[static_cast<size_t>(e.vertex[last])]);
      start =
          ((height + s2 * position * position) - (other_height + s2 * other * other)) / (2 * s2 * (position - other));
      if (start > e.from[last]) break;
      --count;
      start = -1e18;
    }
    e.vertex[static_cast<size_t>(count)] = q;
    e.from[static_cast<size_t>(count++)] = start;
  }
  if (count == 0) {
    std::fill(e.out.begin(), e.out.end(), kFar);
    return;
  }
  int64_t k = 0;
  for (int64_t i = 0; i < n; ++i) {
    while (k + 1 < count && e.from[static_cast<size_t>(k + 1)] <= static_cast<double>(i)) ++k;
    const int64_t j = e.vertex[static_cast<size_t>(k)];
    const double away = static_cast<double>(i - j);
    e.out[static_cast<size_t>(i)] = e.in[static_cast<size_t>(j)] + static_cast<float>(s2 * away * away);
  }
}

void transform_axis(std::vector<float>& values, const Dims& dims, size_t axis, double step) {
  const int64_t strides[3] = {1, dims[0], dims[0] * dims[1]};
  const int64_t n = dims[axis], stride = strides[axis];
  const size_t a = axis == 0 ? 1 : 0, b = axis == 2 ? 1 : 2;  // the other two
  parallel_ranges(dims[b], 1, [&](int64_t begin, int64_t end) {
    Envelope envelope(n);
    for (int64_t j = begin; j < end; ++j)
      for (int64_t i = 0; i < dims[a]; ++i) {
        float* row = values.data() + i * strides[a] + j * strides[b];
        for (int64_t k = 0; k < n; ++k) envelope.in[static_cast<size_t>(k)] = row[k * stride];
        transform_row(envelope, n, step);
        for (int64_t k = 0; k < n; ++k) row[k * stride] = envelope.out[static_cast<size_t>(k)];
      }
  });
}

struct VoxelBox {
  std::array<int64_t, 3> first, last;  // both included
};

// Where the mask is set and `margin_mm` around it, at least a voxel, within the grid; last < first where it is empty.
VoxelBox box_around(const Volume& mask, double margin_mm) {
  VoxelBox box{{mask.dims[0], mask.dims[1], mask.dims[2]}, {-1, -1, -1}};
  const uint8_t* row = mask.as<uint8_t>();
  for (int64_t z = 0; z < mask.dims[2]; ++z)
    for (int64_t y = 0; y < mask.dims[1]; ++y, row += mask.dims[0])
      for (int64_t x = 0; x < mask.dims[0]; ++x) {
        if (row[x] == 0) continue;
        const int64_t at[3] = {x, y, z};
        for (size_t i = 0; i < 3; ++i) {
          box.first[i] = std::min(box.first[i], at[i]);
          box.last[i] = std::max(box.last[i], at[i]);
        }
      }
  if (box.last[0] < 0) return box;
  const Vec3d spacing = mask.spacing();
  for (size_t i = 0; i < 3; ++i) {
    const auto margin = static_cast<int64_t>(std::min(1e6, std::ceil(margin_mm / spacing[i]))) + 1;
    box.first[i] = std::max<int64_t>(0, box.first[i] - margin);
    box.last[i] = std::min(mask.dims[i] - 1, box.last[i] + margin);
  }
  return box;
}

// The part of a mask in the box, with the spacing (not the place) of the whole.
Volume cut(const Volume& mask, const VoxelBox& box) {
  Volume out({box.last[0] - box.first[0] + 1, box.last[1] - box.first[1] + 1, box.last[2] - box.first[2] + 1},
             VoxelType::U8);
  out.affine = mask.affine;
  for (int64_t z = 0; z < out.dims[2]; ++z)
    for (int64_t y = 0; y < out.dims[1]; ++y)
      std::memcpy(out.as<uint8_t>() + out.index(0, y, z),
                  mask.as<uint8_t>() + mask.index(box.first[0], box.first[1] + y, box.first[2] + z),
                  static_cast<size_t>(out.dims[0]));
  return out;
}

// The element that stands for zero, if there is one.
template <class T>
std::optional<T> zero_element(const Volume& scan) {
  if (!scan.is_scaled()) return T{0};
  if constexpr (std::is_floating_point_v<T>) {
    const T zero = static_cast<T>(-scan.intercept / scan.slope);
    if (scan.slope * static_cast<double>(zero) + scan.intercept == 0) return zero;
  } else if constexpr (sizeof(T) <= 4) {  // which a double holds exactly
    const double element = std::round(-scan.intercept / scan.slope);
    if (element >= static_cast<double>(std::numeric_limits<T>::min()) &&
        element <= static_cast<double>(std::numeric_limits<T>::max()) && scan.slope * element + scan.intercept == 0)
      return static_cast<T>(element);
  }
  return std::nullopt;
}

template <class T>
void clear_outside(T* data, const uint8_t* mask, int64_t count, T zero) {
  for (int64_t i = 0; i < count; ++i)
    if (mask[i] == 0) data[i] = zero;
}

Volume as_floats(const Volume& scan) {
  Volume out = like(scan, VoxelType::F32);
  const std::vector<float> values = to_floats(scan);
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}

}  // namespace

std::vector<float> squared_distances(const Volume& mask, bool target) {
  if (mask.type != VoxelType::U8) fail(ErrorCode::InvalidInput, mask.name, "a mask is uint8");
  std::vector<float> out(static_cast<size_t>(mask.voxels()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = (mask.as<uint8_t>()[i] != 0) == target ? 0.0f : kFar;
  const Vec3d spacing = mask.spacing();
  for (size_t axis = 0; axis < 3; ++axis) transform_axis(out, mask.dims, axis, spacing[axis]);
  return out;
}

Volume make_mask(const Volume& labels, double border_mm) {
  if (!(std::abs(border_mm) <= 1000)) fail(ErrorCode::InvalidInput, "mask", "a border of ", border_mm, " mm");
  Volume mask = like(labels, VoxelType::U8);
  visit_elements(labels, [&](const auto* data) {
    for (int64_t i = 0; i < mask.voxels(); ++i) mask.as<uint8_t>()[i] = data[i] != 0 ? 1 : 0;
  });
  if (border_mm == 0) return mask;
  const bool grow = border_mm > 0;
  // Nothing changes further from the mask than the border is wide, so only that part is looked at.
  const VoxelBox box = box_around(mask, std::max(border_mm, 0.0));
  if (box.last[0] < box.first[0]) return mask;
  const Volume part = cut(mask, box);
  const std::vector<float> squared = squared_distances(part, grow);
  // A distance that equals the border up to rounding counts as within it.
  const auto limit = static_cast<float>(border_mm * border_mm * (1 + 1e-6));
  for (int64_t z = 0; z < part.dims[2]; ++z)
    for (int64_t y = 0; y < part.dims[1]; ++y)
      for (int64_t x = 0; x < part.dims[0]; ++x) {
        const bool near = squared[static_cast<size_t>(part.index(x, y, z))] <= limit;
        mask.as<uint8_t>()[mask.index(box.first[0] + x, box.first[1] + y, box.first[2] + z)] = near == grow ? 1 : 0;
      }
  return mask;
}

Volume signed_distance(const Volume& mask) {
  Volume out = like(mask, VoxelType::F32);
  const std::vector<float> outside = squared_distances(mask, true), inside = squared_distances(mask, false);
  for (size_t i = 0; i < outside.size(); ++i)
    out.as<float>()[i] = outside[i] > 0 ? std::sqrt(outside[i]) : -std::sqrt(inside[i]);
  return out;
}

Volume apply_mask(const Volume& scan, const Volume& mask) {
  check_same_extents(scan, mask);
  if (mask.type != VoxelType::U8) fail(ErrorCode::InvalidInput, mask.name, "a mask is uint8");
  return visit_elements(scan, [&](const auto* data) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
    const std::optional<T> zero = zero_element<T>(scan);
    Volume out = zero ? scan : as_floats(scan);
    if (zero) {
      clear_outside(out.as<T>(), mask.as<uint8_t>(), out.voxels(), *zero);
    } else {
      clear_outside(out.as<float>(), mask.as<uint8_t>(), out.voxels(), 0.0f);
    }
    return out;
  });
}

}  // namespace gyrus
