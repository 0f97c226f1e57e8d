#include "fuzz/fuzz.h"
#include "volume/conform.h"
#include "volume/io.h"
#include "volume/normalize.h"
#include "volume/slices.h"

// NIfTI, MGH and gzip in memory, and what is done first with what was read.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> file = gyrus::fuzz::to_bytes(data, size);
  return gyrus::fuzz::expect_only_errors([&] {
    gyrus::ReadOptions options;
    options.max_bytes = 1 << 22;
    const gyrus::Volume volume = gyrus::read_volume(file, "file", options);
    gyrus::anatomical_grid(volume);
    gyrus::normalization_of(volume, {gyrus::NormalizeKind::Quantile});
    gyrus::ConformOptions small;
    small.size = 8;
    small.spacing = 32;
    gyrus::conform(volume, small);
  });
}
