#pragma once
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

#include "gyrus/error.h"

// The numbers that the examples take.

// Argument `index`, a whole number from 1 to a million, or `otherwise` where there are fewer.
inline int64_t count_argument(int argc, char** argv, int index, int64_t otherwise) {
  if (index >= argc) return otherwise;
  const std::string text = argv[index];
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1000000)
    throw gyrus::Error(gyrus::ErrorCode::InvalidInput, "'" + text + "' is no whole number from 1 to 1000000");
  return value;
}
