#include "volume/volume.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "volume/parallel.h"

namespace gyrus {

namespace {

using Matrix3 = std::array<std::array<double, 3>, 3>;

// The rotation nearest to the columns of `m` scaled to unit length: Newton's iteration for the polar decomposition
// (Higham 1986), which converges quadratically for any regular matrix.
Matrix3 nearest_rotation(const Affine& m) {
  const Vec3d length = column_lengths(m);
  Affine q;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) q(r, c) = m(r, c) / length[c];
  for (int step = 0; step < 50; ++step) {
    const Affine inv = inverse(q);
    double change = 0;
    Affine next;
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 3; ++c) {
        next(r, c) = 0.5 * (q(r, c) + inv(c, r));
        change = std::max(change, std::abs(next(r, c) - q(r, c)));
      }
    q = next;
    if (change < 1e-15) break;
  }
  Matrix3 out{};
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) out[r][c] = q(r, c);
  return out;
}

// The vector part (b, c, d) of the unit quaternion of a proper rotation, with a >= 0.
Vec3d quaternion_of(const Matrix3& r) {
  const double trace = r[0][0] + r[1][1] + r[2][2];
  double a = 0, b = 0, c = 0, d = 0;
  if (trace > 0) {
    a = 0.5 * std::sqrt(1 + trace);
    b = (r[2][1] - r[1][2]) / (4 * a);
    c = (r[0][2] - r[2][0]) / (4 * a);
    d = (r[1][0] - r[0][1]) / (4 * a);
  } else if (r[0][0] >= r[1][1] && r[0][0] >= r[2][2]) {
    b = 0.5 * std::sqrt(std::max(0.0, 1 + r[0][0] - r[1][1] - r[2][2]));
    a = (r[2][1] - r[1][2]) / (4 * b);
    c = (r[0][1] + r[1][0]) / (4 * b);
    d = (r[0][2] + r[2][0]) / (4 * b);
  } else if (r[1][1] >= r[2][2]) {
    c = 0.5 * std::sqrt(std::max(0.0, 1 - r[0][0] + r[1][1] - r[2][2]));
    a = (r[0][2] - r[2][0]) / (4 * c);
    b = (r[0][1] + r[1][0]) / (4 * c);
    d = (r[1][2] + r[2][1]) / (4 * c);
  } else {
    d = 0.5 * std::sqrt(std::max(0.0, 1 - r[0][0] - r[1][1] + r[2][2]));
    a = (r[1][0] - r[0][1]) / (4 * d);
    b = (r[0][2] + r[2][0]) / (4 * d);
    c = (r[1][2] + r[2][1]) / (4 * d);
  }
  if (a < 0) return {-b, -c, -d};
  return {b, c, d};
}

template <class T>
void floats_from(const T* in, float* out, int64_t begin, int64_t end, double slope, double intercept, bool scaled) {
  if (scaled) {
    for (int64_t i = begin; i < end; ++i) out[i] = to_float(slope * static_cast<double>(in[i]) + intercept);
  } else if constexpr (sizeof(T) == sizeof(double)) {
    for (int64_t i = begin; i < end; ++i) out[i] = to_float(static_cast<double>(in[i]));
  } else {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<float>(in[i]);
  }
}

template <class T>
int64_t zero_nonfinite_in(T* data, int64_t count) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::abs(data[i]) <= std::numeric_limits<float>::max()) continue;  // what is computed in
    data[i] = 0;
    ++found;
  }
  return found;
}

}  // namespace

const char* to_string(VoxelType type) {
  static constexpr const char* kNames[] = {"uint8", "int8",   "uint16", "int16",   "uint32",
                                           "int32", "uint64", "int64",  "float32", "float64"};
  return kNames[static_cast<size_t>(type)];
}

size_t byte_size(VoxelType type) {
  static constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return kSizes[static_cast<size_t>(type)];
}

std::string to_string(const Dims& dims) { return cat(dims[0], "x", dims[1], "x", dims[2]); }

Volume::Volume(Dims dims_in, VoxelType type_in)
    : dims(dims_in), type(type_in), data(static_cast<size_t>(voxel_count(dims_in)) * byte_size(type_in)) {}

void set_affine(Volume& volume, const Affine& affine) {
  volume.affine = affine;
  NiftiSpace& space = volume.space;
  space = NiftiSpace{};
  space.sform_code = 1;
  space.qform_code = 1;
  space.pixdim = column_lengths(affine);
  space.srow = affine;
  Matrix3 rotation = nearest_rotation(affine);
  space.qfac = determinant(affine) < 0 ? -1 : 1;
  if (space.qfac < 0)
    for (auto& row : rotation) row[2] = -row[2];
  space.quatern = quaternion_of(rotation);
  space.qoffset = {affine(0, 3), affine(1, 3), affine(2, 3)};
}

Volume like(const Volume& volume, VoxelType type) {
  Volume out(volume.dims, type);
  out.affine = volume.affine;
  out.space = volume.space;
  out.name = volume.name;
  return out;
}

void check_same_extents(const Volume& scan, const Volume& labels) {
  if (scan.dims != labels.dims)
    fail(ErrorCode::InvalidInput, labels.name, "is ", to_string(labels.dims), ", the scan ", to_string(scan.dims),
         "; both must lie on one grid");
}

Affine qform_affine(const NiftiSpace& space) {
  double b = space.quatern[0], c = space.quatern[1], d = space.quatern[2];
  double a = 1 - (b * b + c * c + d * d);
  if (a < 1e-7) {
    // 180 degrees, or rounding made the vector part a little too long.
    const double norm = std::sqrt(b * b + c * c + d * d);
    b /= norm;
    c /= norm;
    d /= norm;
    a = 0;
  } else {
    a = std::sqrt(a);
  }
  const double r[3][3] = {{a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
                          {2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)},
                          {2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c}};
  Affine out;
  for (int row = 0; row < 3; ++row) {
    for (int col = 0; col < 3; ++col)
      out(row, col) = r[row][col] * space.pixdim[col] * (col == 2 && space.qfac < 0 ? -1 : 1);
    out(row, 3) = space.qoffset[row];
  }
  return out;
}

double value_at(const Volume& volume, int64_t i) {
  const double element = visit_elements(volume, [i](const auto* data) { return static_cast<double>(data[i]); });
  return volume.slope * element + volume.intercept;
}

std::vector<float> to_floats(const Volume& volume) {
  std::vector<float> out(static_cast<size_t>(volume.voxels()));
  visit_elements(volume, [&](const auto* data) {
    parallel_ranges(volume.voxels(), 1 << 18, [&](int64_t begin, int64_t end) {
      floats_from(data, out.data(), begin, end, volume.slope, volume.intercept, volume.is_scaled());
    });
  });
  return out;
}

int64_t zero_nonfinite(Volume& volume) {
  if (volume.is_scaled() && (volume.type == VoxelType::F32 || volume.type == VoxelType::F64)) {
    // Zero must be the value, not the element.
    const std::vector<float> values = to_floats(volume);
    volume.type = VoxelType::F32;
    volume.data.resize(values.size() * sizeof(float));
    std::memcpy(volume.data.data(), values.data(), volume.data.size());
    volume.slope = 1;
    volume.intercept = 0;
  }
  if (volume.type == VoxelType::F32) return zero_nonfinite_in(volume.as<float>(), volume.voxels());
  if (volume.type == VoxelType::F64) return zero_nonfinite_in(volume.as<double>(), volume.voxels());
  return 0;
}

void take_nonfinite_as_zero(Volume& volume) {
  const char* what = volume.type == VoxelType::F64 ? "NaN, infinite or too large for 32 bits" : "NaN or infinite";
  const int64_t odd = zero_nonfinite(volume);
  if (odd == 0) return;
  if (odd == volume.voxels())
    fail(ErrorCode::InvalidInput, volume.name,
         "holds nothing but NaN or infinite values: check that this is the right file");
  volume.notices.push_back(
      cat(odd, " of ", volume.voxels(), " voxels are ", what, "; they are taken as 0, as outside of the head"));
}

}  // namespace gyrus
