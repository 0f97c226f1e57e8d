// Any bytes through each kind of tokenizer and back: nothing is lost, and text that comes token by token is UTF-8.
#include "fuzz/fuzz.h"
#include "support/gguf_writer.h"
#include "text/algorithm.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

using gyrus::Tokenizer;

Tokenizer tokenizer_of(const gyrus::test::GgufWriter& writer) {
  const gyrus::test::ByteVector file = writer.out();
  return Tokenizer(gyrus::read_gguf(gyrus::bytes_of(file), "file"));
}

std::vector<Tokenizer> tokenizers() {
  std::vector<Tokenizer> out;
  std::vector<std::string> bytes = {"<unk>", "\u2581", "a", "b", "ab", "\u2581a", "\u00e9"};
  std::vector<std::string> letters = {"ab", "\u0120a"};
  std::vector<int32_t> kinds(bytes.size(), 1);
  kinds[0] = 2;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    bytes.emplace_back(name);
    kinds.push_back(6);
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    letters.emplace_back();
    gyrus::unicode::append_utf8(letters.back(), printable ? byte : next++);
  }
  gyrus::test::GgufWriter pieces;
  pieces.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", bytes);
  pieces.i32s("tokenizer.ggml.token_type", kinds).u32("tokenizer.ggml.unknown_token_id", 0);
  out.push_back(tokenizer_of(pieces));
  for (const std::string& name : gyrus::pre_tokenizer_names()) {
    gyrus::test::GgufWriter pairs;
    pairs.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", name);
    pairs.texts("tokenizer.ggml.tokens", letters).texts("tokenizer.ggml.merges", {"a b", "\u0120 a"});
    out.push_back(tokenizer_of(pairs));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Tokenizer> all = tokenizers();
  const std::string text(reinterpret_cast<const char*>(data), size);
  return gyrus::fuzz::expect_only_errors([&] {
    for (const Tokenizer& tokenizer : all) {
      const std::vector<int32_t> tokens = tokenizer.encode(text);
      const std::string back = tokenizer.decode(tokens);
      // SentencePiece takes its own sign for spaces to be spaces.
      if (back != text && text.find("\u2581") == std::string::npos) std::abort();
      gyrus::TextDecoder decoder(tokenizer, true);
      for (const int32_t token : tokens) {
        const std::string piece = decoder.push(token);
        for (std::string_view rest(piece); !rest.empty();) {
          const gyrus::unicode::Character character = gyrus::unicode::first_character(rest);
          if (character.code == 0xfffd && character.bytes == 1) std::abort();
          rest.remove_prefix(character.bytes);
        }
      }
      decoder.finish();
    }
  });
}
