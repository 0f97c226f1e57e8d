#include "core/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace gyrus {

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::F32: return "f32";
    case DType::F16: return "f16";
    case DType::I32: return "i32";
    case DType::U32: return "u32";
    case DType::U8: return "u8";
    case DType::I64: return "i64";
    case DType::Bool: return "bool";
  }
  return "?";
}

size_t byte_size(DType dtype) {
  switch (dtype) {
    case DType::F16: return 2;
    case DType::U8:
    case DType::Bool: return 1;
    case DType::I64: return 8;
    default: return 4;
  }
}

bool is_float(DType dtype) { return dtype == DType::F32 || dtype == DType::F16; }

DType dtype_from_string(const std::string& name) {
  for (DType d : {DType::F32, DType::F16, DType::I32, DType::U32, DType::U8, DType::I64, DType::Bool})
    if (name == to_string(d)) return d;
  fail(ErrorCode::InvalidGraph, "dtype", "unknown element type '", name, "'; one of f32, f16, i32, u32, u8, i64, bool");
}

int64_t checked_mul(int64_t a, int64_t b, const char* subject) {
  constexpr int64_t kMax = int64_t{1} << 62;
  if (a < 0 || b < 0 || (b != 0 && a > kMax / b))
    fail(ErrorCode::InvalidGraph, subject, "size overflows: ", a, " times ", b);
  return a * b;
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count = checked_mul(count, extent, "shape");
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Tensor::Tensor(DType d, Shape s) : dtype(d), shape(std::move(s)) {
  data.resize(static_cast<size_t>(element_count(shape)) * byte_size(dtype));
}

Tensor Tensor::from_floats(Shape shape, const std::vector<float>& values) {
  Tensor tensor(DType::F32, std::move(shape));
  if (static_cast<int64_t>(values.size()) != tensor.size())
    fail(ErrorCode::InvalidInput, "tensor", values.size(), " values for shape ", to_string(tensor.shape));
  if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

double get(const Tensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::F32: return t.as<float>()[i];
    case DType::F16: return half_to_float(t.as<uint16_t>()[i]);
    case DType::I32: return t.as<int32_t>()[i];
    case DType::U32: return t.as<uint32_t>()[i];
    case DType::U8: return t.as<uint8_t>()[i];
    case DType::I64: return static_cast<double>(t.as<int64_t>()[i]);
    case DType::Bool: return t.as<uint8_t>()[i] != 0;
  }
  return 0;
}

namespace {
// Truncates toward zero and clamps to the range of T; NaN becomes 0.
template <class T>
T to_integer(double value) {
  if (!(value == value)) return 0;
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
  constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
  if (value <= kLow) return std::numeric_limits<T>::min();
  if (value >= kHigh) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}
}  // namespace

void set(Tensor& t, int64_t i, double value) {
  switch (t.dtype) {
    case DType::F32: t.as<float>()[i] = static_cast<float>(value); break;
    case DType::F16: t.as<uint16_t>()[i] = float_to_half(static_cast<float>(value)); break;
    case DType::I32: t.as<int32_t>()[i] = to_integer<int32_t>(value); break;
    case DType::U32: t.as<uint32_t>()[i] = to_integer<uint32_t>(value); break;
    case DType::U8: t.as<uint8_t>()[i] = to_integer<uint8_t>(value); break;
    case DType::I64: t.as<int64_t>()[i] = to_integer<int64_t>(value); break;
    case DType::Bool: t.as<uint8_t>()[i] = value != 0; break;
  }
}

uint16_t float_to_half(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x33000001u) return static_cast<uint16_t>(sign);             // rounds to zero
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const int drop = exponent < -14 ? 13 + (-14 - exponent) : 13;
  const uint32_t half = 1u << (drop - 1);
  const uint32_t rest = mantissa & ((1u << drop) - 1);
  mantissa >>= drop;
  if (rest > half || (rest == half && (mantissa & 1u))) ++mantissa;
  // A normal number has its hidden bit at 0x400; adding lets a carry run into the exponent.
  const uint32_t base = exponent < -14 ? 0u : static_cast<uint32_t>(exponent + 14) << 10;
  return static_cast<uint16_t>(sign | (base + mantissa));
}

float half_to_float(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  uint32_t bits = 0;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    std::memcpy(&bits, &magnitude, 4);
    bits |= sign;
  } else if (exponent == 31) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  }
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

}  // namespace gyrus
