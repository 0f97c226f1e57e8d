#pragma once
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gyrus/tensor.h"

namespace gyrus::test {

// The folder of the public test data, or an empty path where it is absent: ../shared/data beside the project, or where
// GYRUS_TEST_DATA points.
inline std::filesystem::path test_data() {
  const char* named = std::getenv("GYRUS_TEST_DATA");
  const std::filesystem::path path =
      named ? std::filesystem::path(named) : std::filesystem::path(GYRUS_SOURCE_DIR) / "../shared/data";
  return std::filesystem::exists(path / "README.md") ? path : std::filesystem::path();
}

inline std::vector<uint8_t> read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Volumes lie in files with x fastest, in tensors [x,y,z] with z fastest.
template <class T>
std::vector<T> to_z_fastest(const std::vector<T>& x_fastest, const std::vector<int64_t>& shape) {
  std::vector<T> out(x_fastest.size());
  for (int64_t x = 0; x < shape[0]; ++x)
    for (int64_t y = 0; y < shape[1]; ++y)
      for (int64_t z = 0; z < shape[2]; ++z)
        out[(x * shape[1] + y) * shape[2] + z] = x_fastest[(z * shape[1] + y) * shape[0] + x];
  return out;
}

}  // namespace gyrus::test
