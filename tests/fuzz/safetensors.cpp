#include "import/safetensors.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> file = gyrus::fuzz::to_bytes(data, size);
  return gyrus::fuzz::expect_only_errors([&] {
    const gyrus::StateDict state = gyrus::read_safetensors(gyrus::bytes_of(file), "file");
    gyrus::check_finite(state, "file");
  });
}
