#include <algorithm>

#include "fuzz/fuzz.h"
#include "volume/io.h"

// A header of 348 or 540 bytes (the first byte of the input says which), then the image.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t cut = std::min<size_t>(size - 1, data[0] % 2 == 0 ? 348 : 540);
  const std::vector<std::byte> header = gyrus::fuzz::to_bytes(data + 1, cut);
  const std::vector<std::byte> image = gyrus::fuzz::to_bytes(data + 1 + cut, size - 1 - cut);
  return gyrus::fuzz::expect_only_errors([&] {
    gyrus::ReadOptions options;
    options.max_bytes = 1 << 22;
    gyrus::read_volume_pair(header, image, "file", options);
  });
}
