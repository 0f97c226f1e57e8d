#include "fuzz/fuzz.h"
#include "import/torch_zip.h"
#include "support/model_writer.h"

// A pickle in a zip that is always sound, with storages "0" (six floats) and "1" (eight bytes).
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> file = gyrus::test::make_torch_zip(
      gyrus::fuzz::to_bytes(data, size), {std::vector<std::byte>(24), std::vector<std::byte>(8)});
  return gyrus::fuzz::expect_only_errors([&] { gyrus::read_torch_zip(gyrus::bytes_of(file), "file"); });
}
