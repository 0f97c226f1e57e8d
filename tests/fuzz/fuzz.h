#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"

// What the fuzzers share. A parser given rubbish must throw gyrus::Error with one line that starts with "["; anything
// else ends the run.

namespace gyrus::fuzz {

inline std::vector<std::byte> to_bytes(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  return {bytes, bytes + size};
}

// An input of two files: the first ends at the first zero byte, the second is the rest.
struct TwoFiles {
  std::vector<std::byte> first, second;
  TwoFiles(const uint8_t* data, size_t size) {
    const void* zero = size == 0 ? nullptr : std::memchr(data, 0, size);
    const size_t cut = zero == nullptr ? size : static_cast<size_t>(static_cast<const uint8_t*>(zero) - data);
    first = to_bytes(data, cut);
    if (cut < size) second = to_bytes(data + cut + 1, size - cut - 1);
  }
};

template <class Action>
int expect_only_errors(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.empty() || message[0] != '[' || message.find('\n') != std::string::npos) std::abort();
  }
  return 0;
}

}  // namespace gyrus::fuzz
