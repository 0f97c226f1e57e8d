#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gyrus {

// FNV-1a, 64 bits: for names of cache files and checksums against accidents, not against malice. `start` continues.
inline constexpr uint64_t kFnvStart = 0xcbf29ce484222325;
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t start = kFnvStart) {
  for (const char c : bytes) start = (start ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return start;
}

// SHA-256 (FIPS 180-4), fed piece by piece. Our own, because it is short and the program then needs no crypto library.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  // 64 lower-case hexadecimal digits; nothing may be added afterwards.
  std::string hex();

 private:
  void block(const std::byte* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> waiting_{};  // the start of a block that is not full yet
  uint64_t length_ = 0;                  // bytes so far
};

}  // namespace gyrus
