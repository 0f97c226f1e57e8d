#include "text/tokenizer.h"

#include "import/gguf_file.h"
#include "support/gguf_writer.h"
#include "support/test_data.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

using Tokens = std::vector<int32_t>;

Tokenizer tokenizer_of(const GgufWriter& writer) {
  const ByteVector file = writer.out();
  return Tokenizer(read_gguf(bytes_of(file), "m.gguf"));
}

// "a", "b", "ab", … by score; bytes 'x' and 'é' are written in bytes.
GgufWriter sentence_piece() {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>", "<|user|>", "[THING]", "\u2581"};
  std::vector<int32_t> kinds = {2, 3, 3, 3, 4, 1};
  std::vector<float> scores(6);
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    texts.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    kinds.push_back(6);
    scores.push_back(0);
  }
  float score = -1;
  for (const char* text : {"ab", "\u2581ab", "bc", "a", "b", "c", "\u2581a"}) {
    texts.emplace_back(text);
    kinds.push_back(1);
    scores.push_back(score--);
  }
  GgufWriter writer;
  writer.text("general.architecture", "llama").text("tokenizer.ggml.model", "llama");
  writer.texts("tokenizer.ggml.tokens", texts).f32s("tokenizer.ggml.scores", scores);
  writer.i32s("tokenizer.ggml.token_type", kinds);
  writer.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  writer.u32("tokenizer.ggml.unknown_token_id", 0);
  return writer;
}
constexpr int32_t kByte = 6, kAb = 262, kSpaceAb = 263, kBc = 264, kA = 265, kC = 267, kSpaceA = 268;

TEST(Tokenizer, SentencePieceByScores) {
  const Tokenizer tokenizer = tokenizer_of(sentence_piece());
  EXPECT_EQ(tokenizer.encode("ab"), (Tokens{kSpaceAb}));
  EXPECT_EQ(tokenizer.encode("abc"), (Tokens{kSpaceAb, kC}));
  EXPECT_EQ(tokenizer.encode("ab ab"), (Tokens{kSpaceAb, kSpaceAb}));
  EXPECT_EQ(tokenizer.encode("abc", false, true), (Tokens{1, kSpaceAb, kC}));
  EXPECT_EQ(tokenizer.encode("é"), (Tokens{5, kByte + 0xc3, kByte + 0xa9}));
  EXPECT_EQ(tokenizer.encode(""), Tokens{});
  EXPECT_EQ(tokenizer.encode("", false, true), Tokens{1});
  EXPECT_EQ(tokenizer.encode("\xff"), (Tokens{5, kByte + 0xff}));  // no UTF-8
  EXPECT_EQ(tokenizer_of(sentence_piece().boolean("tokenizer.ggml.add_space_prefix", false)).encode("ab"), Tokens{kAb});
  EXPECT_EQ(tokenizer_of(sentence_piece().boolean("tokenizer.ggml.add_bos_token", false)).encode("a", false, true),
            Tokens{kSpaceA});
  EXPECT_EQ(tokenizer_of(sentence_piece().boolean("tokenizer.ggml.add_eos_token", true)).encode("a", false, true),
            (Tokens{1, kSpaceA, 2}));
  EXPECT_EQ(tokenizer.encode("bca").size(), 3U);
  EXPECT_EQ(tokenizer.encode("bca")[1], kBc);
  EXPECT_EQ(tokenizer.encode("bca")[2], kA);
}

TEST(Tokenizer, SpecialTokensOnlyWhereAsked) {
  const Tokenizer tokenizer = tokenizer_of(sentence_piece());
  EXPECT_EQ(tokenizer.encode("ab<|user|>a", true), (Tokens{kSpaceAb, 3, kSpaceA}));
  const Tokens plain = tokenizer.encode("ab<|user|>a");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 3), 0);
  EXPECT_EQ(tokenizer.decode(plain), "ab<|user|>a");
  EXPECT_EQ(tokenizer.encode("ab[THING]a"), (Tokens{kSpaceAb, 4, kSpaceA}));  // user-defined: always
  EXPECT_EQ(tokenizer.decode(Tokens{1, kSpaceAb, 3, kSpaceA}), "aba");
  EXPECT_EQ(tokenizer.decode(Tokens{1, kSpaceAb, 3, kSpaceA}, true), "<s>ab<|user|>a");
  EXPECT_TRUE(tokenizer.ends_text(2));
  EXPECT_FALSE(tokenizer.ends_text(1));
  expect_error(ErrorCode::InvalidInput, "there is no token 100000", [&] { tokenizer.decode(Tokens{100000}); });
}

TEST(Tokenizer, StreamsWholeCharacters) {
  const Tokenizer tokenizer = tokenizer_of(sentence_piece());
  TextDecoder decoder(tokenizer, true);
  std::string all;
  std::vector<std::string> pieces;
  for (const int32_t token : tokenizer.encode("a\u00e9\U0001f999b")) {
    pieces.push_back(decoder.push(token));
    all += pieces.back();
  }
  EXPECT_EQ(all, "a\u00e9\U0001f999b");
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "", "\u00e9", "", "", "", "\U0001f999", "b"}));
  EXPECT_EQ(decoder.push(kByte + 0xf0), "");
  EXPECT_EQ(decoder.push(kA), "\ufffda");
  EXPECT_EQ(decoder.push(kByte + 0xc3), "");
  EXPECT_EQ(decoder.finish(), "\ufffd");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(Tokenizer, RefusesByName) {
  GgufWriter other;
  other.text("tokenizer.ggml.model", "rwkv").texts("tokenizer.ggml.tokens", {"a"});
  expect_error(ErrorCode::Unsupported, "tokenizer 'rwkv'", [&] { tokenizer_of(other); });
  GgufWriter pre;
  pre.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "strange").texts("tokenizer.ggml.tokens", {"a"});
  pre.texts("tokenizer.ggml.merges", {});
  expect_error(ErrorCode::Unsupported, "pre-tokenizer 'strange'", [&] { tokenizer_of(pre); });
  GgufWriter none;
  none.text("tokenizer.ggml.model", "llama");
  expect_error(ErrorCode::InvalidModel, "no metadata 'tokenizer.ggml.tokens'", [&] { tokenizer_of(none); });
  expect_error(ErrorCode::InvalidModel, "there is no token 9999",
               [&] { tokenizer_of(sentence_piece().u32("tokenizer.ggml.eot_token_id", 9999)); });
  GgufWriter merges;
  merges.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", {"a"});
  merges.texts("tokenizer.ggml.merges", {"ab"});
  expect_error(ErrorCode::InvalidModel, "merge 0 is no pair: 'ab'", [&] { tokenizer_of(merges); });
}

// Merges whose parts or results are no tokens fall back to bytes.
TEST(Tokenizer, BytePairsByRank) {
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  writer.texts("tokenizer.ggml.tokens", {"a", "b", "c", "\u0120", "bc", "ab", "\u0120a", "abc"});
  writer.texts("tokenizer.ggml.merges", {"b c", "a b", "\u0120 a", "c c", "a bc"});
  const Tokenizer tokenizer = tokenizer_of(writer);
  EXPECT_EQ(tokenizer.encode("abc"), (Tokens{7}));
  EXPECT_EQ(tokenizer.encode("ab"), (Tokens{5}));
  EXPECT_EQ(tokenizer.encode("bab a"), (Tokens{1, 5, 6}));
  EXPECT_EQ(tokenizer.encode("cc"), (Tokens{2, 2}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" a abc")), " a abc");
  expect_error(ErrorCode::InvalidModel, "neither a token for the byte 122", [&] { tokenizer.encode("z"); });
}

TEST(Tokenizer, WordPieceLongestFirst) {
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "bert")
      .texts("tokenizer.ggml.tokens",
             {"[UNK]", "[CLS]", "[SEP]", "\u2581ap", "fel", "\u2581!", "\u2581a", "p", "\u2581\u6211"});
  writer.i32s("tokenizer.ggml.token_type", {3, 3, 3, 1, 1, 1, 1, 1, 1});
  writer.u32("tokenizer.ggml.unknown_token_id", 0).u32("tokenizer.ggml.cls_token_id", 1);
  writer.u32("tokenizer.ggml.seperator_token_id", 2);
  const Tokenizer tokenizer = tokenizer_of(writer);
  EXPECT_EQ(tokenizer.encode("\u00c4pfel!"), (Tokens{3, 4, 5}));
  EXPECT_EQ(tokenizer.encode("app a\u6211x", false, true), (Tokens{1, 3, 7, 6, 8, 0, 2}));
  EXPECT_EQ(tokenizer.encode(std::string(101, 'a')), Tokens{0});
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("apfel !")), "apfel !");
}

// Strings and tokens of others: 46 pairs for each of four tokenizers.
TEST(Tokenizer, AgreesWithOthers) {
  const std::filesystem::path folder = test_data() / "llm" / "vocab";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  const std::string kBetween = "\n__ggml_vocab_test__\n";
  int pairs = 0;
  for (const char* name : {"llama-spm", "bert-bge", "gpt-2", "deepseek-coder"}) {
    const std::string path = (folder / (std::string("ggml-vocab-") + name + ".gguf")).string();
    const Tokenizer tokenizer{GgufFile(path).head()};
    const std::vector<uint8_t> bytes = read_bytes(path + ".inp");
    std::string texts(bytes.begin(), bytes.end());
    std::ifstream wanted(path + ".out");
    for (std::string line; std::getline(wanted, line);) {
      const size_t end = texts.find(kBetween);
      const std::string text = texts.substr(0, end);
      texts.erase(0, end == std::string::npos ? end : end + kBetween.size());
      std::istringstream numbers(line);
      const Tokens want{std::istream_iterator<int32_t>(numbers), std::istream_iterator<int32_t>()};
      const Tokens got = tokenizer.encode(text);
      EXPECT_EQ(got, want) << name << ": \"" << text << '"';
      if (name != std::string("bert-bge")) {
        EXPECT_EQ(tokenizer.decode(got), text) << name;
      }
      pairs += got == want ? 1 : 0;
    }
    EXPECT_TRUE(texts.empty()) << texts;
  }
  EXPECT_EQ(pairs, 184);
}

}  // namespace
}  // namespace gyrus::test
