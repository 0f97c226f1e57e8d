#pragma once
#include <cstdint>
#include <string>

#include "core/tensor.h"

// Types of WGSL as values, so that nothing searches in their names.

namespace gyrus {

enum class Scalar : uint8_t { F32, F16, I32, U32, Bool };

struct WgslType {
  Scalar scalar = Scalar::F32;
  uint8_t lanes = 1;  // 1 for a scalar, 2 to 4 for a vector
  bool operator==(const WgslType&) const = default;
};

const char* to_string(Scalar scalar);
// "f32", "vec4<u32>" …
std::string to_string(WgslType type);
// The type with as many lanes of another scalar.
WgslType with_scalar(WgslType type, Scalar scalar);
// In which scalar kernels compute values of that element type: halves as f32, bytes and truth values as u32, i64 as
// i32.
Scalar scalar_of(DType dtype);

namespace wgsl {
inline constexpr WgslType f32{Scalar::F32, 1}, vec4f{Scalar::F32, 4}, u32{Scalar::U32, 1}, i32{Scalar::I32, 1},
    vec2u{Scalar::U32, 2};
}  // namespace wgsl

}  // namespace gyrus
