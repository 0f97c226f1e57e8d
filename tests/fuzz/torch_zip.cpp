#include "import/torch_zip.h"

#include "fuzz/fuzz.h"

// A whole file. The CRCs keep most changes from the pickle inside, which torch_pickle.cpp therefore feeds by itself.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> file = gyrus::fuzz::to_bytes(data, size);
  return gyrus::fuzz::expect_only_errors([&] { gyrus::read_torch_zip(gyrus::bytes_of(file), "file"); });
}
