// The JSON documents of a folder as transformers writes it, in one object: shape and tokenizer.
#include "import/hugging_face.h"

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> file = gyrus::fuzz::to_bytes(data, size);
  return gyrus::fuzz::expect_only_errors([&] {
    const gyrus::Json all = gyrus::parse_json(gyrus::bytes_of(file), "file");
    if (!all.is_object()) return;
    gyrus::HuggingFaceFiles files;
    files.subject = "folder";
    files.config = all.value("config", gyrus::Json());
    files.tokenizer = all.value("tokenizer", gyrus::Json());
    files.tokenizer_config = all.value("tokenizer_config", gyrus::Json());
    files.generation = all.value("generation", gyrus::Json());
    gyrus::fuzz::expect_only_errors([&] {
      std::vector<float> factors;
      gyrus::hugging_face_shape(files, factors);
    });
    const gyrus::Tokenizer tokenizer(gyrus::Gguf("folder", gyrus::hugging_face_tokenizer(files), {}));
    const std::vector<int32_t> tokens = tokenizer.encode("Hi, y'all! 12 \xc3\xa9\xff<s>\n", true, true);
    tokenizer.decode(tokens, true);
  });
}
