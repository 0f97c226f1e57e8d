#pragma once
#include <cstdint>

// Random numbers that are a function of seed and position: the same on every platform and in any order of evaluation.

namespace gyrus {

// A well-mixed 64-bit hash (the finaliser of SplitMix64).
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Uniform in [0, 1), number `index` of the stream `seed`.
inline double uniform_at(uint64_t seed, uint64_t index) {
  return static_cast<double>(mix(mix(seed) ^ index) >> 11) * 0x1p-53;
}

// Nearly normal with mean 0 and deviation 1 (a sum of four 16-bit uniforms; within ±3.46), without transcendental
// functions, whose last digits differ between platforms.
inline double normal_at(uint64_t seed, uint64_t index) {
  const uint64_t h = mix(mix(seed) ^ index);
  const auto sum = static_cast<double>((h & 0xffff) + ((h >> 16) & 0xffff) + ((h >> 32) & 0xffff) + (h >> 48));
  return (sum * 0x1p-16 - 2.0) * 1.7320508075688772;
}

}  // namespace gyrus
