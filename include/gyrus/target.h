#pragma once
#include <cstdint>
#include <vector>

#include "gyrus/limits.h"
#include "gyrus/tensor.h"

namespace gyrus {

// Matrices that a subgroup multiplies in one step: [m, k] times [k, n].
struct MatrixShape {
  DType input = DType::F16;
  DType result = DType::F32;
  uint32_t m = 0, n = 0, k = 0;
  bool operator==(const MatrixShape&) const = default;
};

// What plans are made for: all that the planner knows of a device.
struct Target {
  Limits limits;
  Features features;
  uint32_t subgroup_min_size = 0;  // 0 where it is not known
  uint32_t subgroup_max_size = 0;
  std::vector<MatrixShape> matrices;  // of matrix units, where features have them

  Target() = default;
  Target(const Limits& l) : limits(l) {}  // NOLINT(google-explicit-constructor): without features, as many devices are
  bool operator==(const Target&) const = default;
};

// Whether plans use the matrix units of a target.
enum class MatrixUse : uint8_t {
  Auto,  // where maps are stored in halves
  On,    // the same, and it is an error where nothing can use them
  Off,
};

// How feature maps are stored on the device, and in what they are computed.
struct Precision {
  DType storage = DType::F32;  // or F16
  DType compute = DType::F32;  // as all kernels do
  bool operator==(const Precision&) const = default;
  static const Precision F32, F16;  // by their storage
};
inline constexpr Precision Precision::F32{};
inline constexpr Precision Precision::F16{DType::F16, DType::F32};

}  // namespace gyrus
