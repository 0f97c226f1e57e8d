#include "ops/cast.h"

#include "core/error.h"

namespace gyrus {
namespace {

// Floats to integers. The bounds of the integer type are no f32 each: clamp to the last f32 inside, then set the
// upper bound where x passed it. NaN is found by its bits, since compilers may assume that there is none.
std::string float_to_integer(const std::string& x, DType to, WgslType type) {
  const std::string t = to_string(type), bits = to_string(with_scalar(type, Scalar::U32));
  const std::string integer = to_string(with_scalar(type, scalar_of(to)));
  const bool i32 = to == DType::I32, u32 = to == DType::U32;
  const char* lo = i32 ? "-2147483648.0" : "0.0";
  const char* hi = i32 ? "2147483520.0" : u32 ? "4294967040.0" : "255.0";
  std::string result = cat(integer, "(clamp(", x, ", ", t, "(", lo, "), ", t, "(", hi, ")))");
  if (i32) result = cat("select(", result, ", ", integer, "(2147483647), ", x, " >= ", t, "(2147483648.0))");
  if (u32) result = cat("select(", result, ", ", integer, "(4294967295u), ", x, " >= ", t, "(4294967296.0))");
  const std::string nan = cat("((bitcast<", bits, ">(", x, ") & ", bits, "(0x7fffffffu)) > ", bits, "(0x7f800000u))");
  return cat("select(", result, ", ", integer, "(0), ", nan, ")");
}

}  // namespace

double round_to(DType dtype, double x) {
  Tensor one(dtype, {});
  set(one, 0, x);
  return get(one, 0);
}

std::string cast_wgsl(const std::string& x, DType to, WgslType type) {
  const std::string t = to_string(type), target = to_string(with_scalar(type, scalar_of(to)));
  const Scalar from = type.scalar;
  if (is_float(to)) {
    const std::string single = from == Scalar::F32 ? x : target + "(" + x + ")";
    return to == DType::F16 ? "quantizeToF16(" + single + ")" : single;
  }
  if (to == DType::Bool) return cat("select(", target, "(0u), ", target, "(1u), ", x, " != ", t, "(0))");
  if (to == DType::I64) return cast_wgsl(x, DType::I32, type);
  if (from == Scalar::F32) return float_to_integer(x, to, type);
  if (from == Scalar::U32 && to == DType::I32) return cat(target, "(min(", x, ", ", t, "(2147483647u)))");
  if (from == Scalar::I32 && to == DType::U32) return cat(target, "(max(", x, ", ", t, "(0)))");
  if (from == Scalar::I32 && to == DType::U8) return cat(target, "(clamp(", x, ", ", t, "(0), ", t, "(255)))");
  if (from == Scalar::U32 && to == DType::U8) return cat("min(", x, ", ", t, "(255u))");
  return x;
}

}  // namespace gyrus
