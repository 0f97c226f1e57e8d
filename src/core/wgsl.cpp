#include "core/wgsl.h"

#include "core/error.h"

namespace gyrus {

const char* to_string(Scalar scalar) {
  switch (scalar) {
    case Scalar::F32: return "f32";
    case Scalar::F16: return "f16";
    case Scalar::I32: return "i32";
    case Scalar::U32: return "u32";
    case Scalar::Bool: return "bool";
  }
  return "?";
}

std::string to_string(WgslType type) {
  return type.lanes == 1 ? to_string(type.scalar) : cat("vec", int{type.lanes}, "<", to_string(type.scalar), ">");
}

WgslType with_scalar(WgslType type, Scalar scalar) { return {scalar, type.lanes}; }

Scalar scalar_of(DType dtype) {
  if (is_float(dtype)) return Scalar::F32;
  return dtype == DType::I32 || dtype == DType::I64 ? Scalar::I32 : Scalar::U32;
}

}  // namespace gyrus
