#pragma once
#include <cstdint>
#include <cstring>
#include <string>

#include "gyrus/tensor.h"

namespace gyrus {

bool is_float(DType dtype);
// The dtype of that name ("f32" …); throws InvalidGraph on any other.
DType dtype_from_string(const std::string& name);

// Row-major strides in elements.
std::vector<int64_t> strides_of(const Shape& shape);

// a*b, or throws InvalidGraph("[subject] ...") where that passes 2^62.
int64_t checked_mul(int64_t a, int64_t b, const char* subject);

// The same bits as another type; stands in for std::bit_cast, which the WASM toolchain lacks.
template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
inline uint64_t round_down(uint64_t value, uint64_t multiple) { return value / multiple * multiple; }

}  // namespace gyrus
