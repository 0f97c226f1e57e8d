#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

// Unaligned loads and stores of numbers in either byte order.

namespace gyrus {

inline bool host_is_big_endian() {
  const uint16_t one = 1;
  uint8_t first = 0;
  std::memcpy(&first, &one, 1);
  return first == 0;
}

// A copy of `count` elements of `size` bytes each, every element's bytes reversed.
inline void copy_swapped(std::byte* out, const std::byte* in, size_t count, size_t size) {
  for (size_t i = 0; i < count; ++i, in += size, out += size)
    for (size_t b = 0; b < size; ++b) out[b] = in[size - 1 - b];
}

// The T at `bytes + offset`, its bytes reversed where `swap`.
template <class T>
T load(const std::byte* bytes, size_t offset, bool swap) {
  std::byte raw[sizeof(T)];
  if (swap) {
    copy_swapped(raw, bytes + offset, 1, sizeof(T));
  } else {
    std::memcpy(raw, bytes + offset, sizeof(T));
  }
  T value;
  std::memcpy(&value, raw, sizeof(T));
  return value;
}

// Writes `value` at `bytes + offset` in little-endian order.
template <class T>
void store(std::byte* bytes, size_t offset, T value) {
  std::byte raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  if (host_is_big_endian()) {
    copy_swapped(bytes + offset, raw, 1, sizeof(T));
  } else {
    std::memcpy(bytes + offset, raw, sizeof(T));
  }
}

}  // namespace gyrus
