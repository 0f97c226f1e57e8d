#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gyrus {

// I64 and Bool (bytes 0 and 1) exist in graphs and host tensors; kernels see them as I32 and U8.
enum class DType : uint8_t { F32, F16, I32, U32, U8, I64, Bool };

const char* to_string(DType dtype);
size_t byte_size(DType dtype);

// Extents of a tensor, slowest axis first. Rank 0 is a scalar.
using Shape = std::vector<int64_t>;

// Product of the extents; throws InvalidGraph on a negative extent or when it passes 2^62.
int64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);

// A dense row-major tensor in host memory.
struct Tensor {
  DType dtype = DType::F32;
  Shape shape;
  std::vector<std::byte> data;  // element_count(shape) * byte_size(dtype) bytes

  Tensor() = default;
  Tensor(DType dtype, Shape shape);  // zeros
  static Tensor from_floats(Shape shape, const std::vector<float>& values);

  int64_t size() const { return element_count(shape); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data.data());
  }
};

// Element i converted to double, whatever the dtype; for code where clarity matters more than speed.
double get(const Tensor& tensor, int64_t i);
// Sets element i, rounding to the dtype (to nearest, ties to even; integers are truncated and clamped).
void set(Tensor& tensor, int64_t i, double value);

// IEEE half conversions, round to nearest even.
uint16_t float_to_half(float value);
float half_to_float(uint16_t half);

}  // namespace gyrus
