// The head of a GGUF file, whole and in parts, and its tokenizer.
#include "import/gguf.h"

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> file = gyrus::fuzz::to_bytes(data, size);
  const gyrus::Bytes bytes = gyrus::bytes_of(file);
  gyrus::fuzz::expect_only_errors([&] {
    uint64_t given = 0;
    for (;;) {
      const gyrus::GgufHead head = gyrus::read_gguf_head(bytes.first(given), bytes.size(), "file");
      if (head.gguf) break;
      if (head.wanted <= given || head.wanted > bytes.size()) std::abort();
      given = head.wanted;
    }
  });
  return gyrus::fuzz::expect_only_errors([&] {
    const gyrus::Gguf gguf = gyrus::read_gguf(bytes, "file");
    for (const gyrus::GgufTensor& tensor : gguf.tensors()) {
      if (tensor.offset + tensor.bytes > bytes.size()) std::abort();
      if (gyrus::block_format(tensor.type).decode)
        gyrus::dequantized(tensor, bytes.subspan(tensor.offset, tensor.bytes));
    }
    if (!gguf.has("tokenizer.ggml.model")) return;
    const gyrus::Tokenizer tokenizer(gguf);
    const std::vector<int32_t> tokens = tokenizer.encode("Hi, y'all! 12 \xc3\xa9\xff<s>\n", true, true);
    tokenizer.decode(tokens, true);
  });
}
