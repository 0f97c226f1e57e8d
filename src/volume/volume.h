#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "volume/affine.h"

// A scan or a label map in memory: voxels with x fastest, as files store them, and where they lie in the head.

namespace gyrus {

enum class VoxelType : uint8_t { U8, I8, U16, I16, U32, I32, U64, I64, F32, F64 };

const char* to_string(VoxelType type);
size_t byte_size(VoxelType type);

using Dims = std::array<int64_t, 3>;  // extents in voxels: x, y, z

std::string to_string(const Dims& dims);  // "256x256x256"
inline int64_t voxel_count(const Dims& dims) { return dims[0] * dims[1] * dims[2]; }

// The geometry fields of a NIfTI header, kept as they were read so that results carry the same ones.
struct NiftiSpace {
  int qform_code = 0;
  int sform_code = 0;
  Vec3d pixdim{1, 1, 1};  // in the units of `units`
  double qfac = 1;        // +1 or -1
  Vec3d quatern{0, 0, 0};
  Vec3d qoffset{0, 0, 0};
  Affine srow;
  int units = 2;  // xyzt_units, spatial bits: 1 metre, 2 millimetre, 3 micron
};

struct Volume {
  Dims dims{0, 0, 0};
  VoxelType type = VoxelType::U8;
  std::vector<std::byte> data;  // voxel_count(dims) elements in the host's byte order, x fastest
  double slope = 1;             // value = slope * element + intercept
  double intercept = 0;
  Affine affine;     // voxel → RAS millimetres
  NiftiSpace space;  // agrees with `affine`; written to output files
  std::string description;
  std::string comment;               // a header extension of plain text (NIfTI's code 6)
  std::string name;                  // file name, for messages
  std::vector<std::string> notices;  // what the reader had to assume; one line each

  Volume() = default;
  Volume(Dims dims, VoxelType type);  // zeros, identity affine

  int64_t voxels() const { return voxel_count(dims); }
  int64_t index(int64_t x, int64_t y, int64_t z) const { return x + dims[0] * (y + dims[1] * z); }
  Vec3d spacing() const { return column_lengths(affine); }  // mm
  bool is_scaled() const { return slope != 1 || intercept != 0; }

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data.data());
  }
};

// Sets the affine and header fields that say the same: sform and qform (the nearest rotation), code 1, millimetres.
void set_affine(Volume& volume, const Affine& affine);
// An empty (zero) volume of that type on the same grid, with the same header fields.
Volume like(const Volume& volume, VoxelType type);
// Throws InvalidInput where the extents differ.
void check_same_extents(const Volume& scan, const Volume& labels);
// The affine that a qform describes.
Affine qform_affine(const NiftiSpace& space);

// Calls f(const T* elements) with the volume's element type T.
template <class F>
decltype(auto) visit_elements(const Volume& volume, F&& f) {
  switch (volume.type) {
    case VoxelType::U8: return f(volume.as<uint8_t>());
    case VoxelType::I8: return f(volume.as<int8_t>());
    case VoxelType::U16: return f(volume.as<uint16_t>());
    case VoxelType::I16: return f(volume.as<int16_t>());
    case VoxelType::U32: return f(volume.as<uint32_t>());
    case VoxelType::I32: return f(volume.as<int32_t>());
    case VoxelType::U64: return f(volume.as<uint64_t>());
    case VoxelType::I64: return f(volume.as<int64_t>());
    case VoxelType::F32: return f(volume.as<float>());
    case VoxelType::F64: break;
  }
  return f(volume.as<double>());
}

// The nearest float; beyond its range an infinity.
inline float to_float(double value) {
  constexpr double kLargest = 3.4028234663852886e38;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return value > kLargest ? kInfinity : value < -kLargest ? -kInfinity : static_cast<float>(value);
}

// Voxel i with slope and intercept applied; for code where clarity matters more than speed.
double value_at(const Volume& volume, int64_t i);
// All voxels with slope and intercept applied.
std::vector<float> to_floats(const Volume& volume);
// Replaces NaN and infinities by zero; returns how many there were. The type becomes F32 where it was scaled.
int64_t zero_nonfinite(Volume& volume);
// The same with a notice, as NaN stands for what lies outside of the head. Throws InvalidInput where there is nothing
// else.
void take_nonfinite_as_zero(Volume& volume);

}  // namespace gyrus
