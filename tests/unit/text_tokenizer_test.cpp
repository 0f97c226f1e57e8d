#include "text/tokenizer.h"

#include "import/hugging_face.h"
#include "import/text_model_file.h"
#include "support/gguf_writer.h"
#include "support/test_data.h"
#include "text/unicode.h"
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
  // Control characters are no spaces, but for the ends of lines.
  EXPECT_EQ(tokenizer.encode("ap\x0b\u0085\u200bfel\r\n!"), (Tokens{3, 4, 5}));
}

// Matrices may have more rows than there are tokens.
TEST(Tokenizer, RowsWithoutATokenHaveNoText) {
  GgufWriter writer = sentence_piece();
  writer.tensor("token_embd.weight", {2, 300}, 0, ByteVector(2 * 300 * 4));
  const Tokenizer tokenizer = tokenizer_of(writer);
  EXPECT_EQ(tokenizer.size(), 300);
  EXPECT_EQ(tokenizer.decode(Tokens{kSpaceAb, 299, kC}), "abc");
}

// Strings and tokens of others: 46 pairs for each of four tokenizers.
TEST(Tokenizer, AgreesWithOthers) {
  const std::filesystem::path folder = test_data() / "llm" / "vocab";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  const std::string kBetween = "\n__ggml_vocab_test__\n";
  int pairs = 0;
  for (const char* name : {"llama-spm", "bert-bge", "gpt-2", "deepseek-coder"}) {
    const std::string path = (folder / (std::string("ggml-vocab-") + name + ".gguf")).string();
    const Tokenizer tokenizer{TextModelFile(path).head()};
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

// What tokenizer.json says of the same vocabularies: the same tokens.
Tokenizer tokenizer_of(const HuggingFaceFiles& files) {
  return Tokenizer(Gguf("folder", hugging_face_tokenizer(files), {}));
}

HuggingFaceFiles small_files() {
  HuggingFaceFiles files;
  files.subject = "folder";
  files.config = {{"eos_token_id", 5}};
  files.tokenizer = {
      {"added_tokens", {{{"id", 5}, {"content", "<end>"}, {"special", true}}, {{"id", 7}, {"content", "TOOL"}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"\u0120", 3}, {"\u0120a", 4}}},
        {"merges", {"\u0120 a", {"a", "b"}}}}}};
  return files;
}

TEST(TokenizerJson, BytePairs) {
  HuggingFaceFiles files = small_files();
  const Tokenizer tokenizer = tokenizer_of(files);
  EXPECT_EQ(tokenizer.size(), 8);
  EXPECT_EQ(tokenizer.encode("ab ab"), (Tokens{2, 4, 1}));
  EXPECT_EQ(tokenizer.encode("abTOOLb"), (Tokens{2, 7, 1}));
  EXPECT_EQ(tokenizer.encode("b<end>", true), (Tokens{1, 5}));
  EXPECT_EQ(tokenizer.encode("a", false, true), (Tokens{0}));
  EXPECT_TRUE(tokenizer.ends_text(5));
  files.tokenizer["model"]["merges"] = {"\u0120 a", "a b"};
  EXPECT_EQ(tokenizer_of(files).encode("ab ab"), (Tokens{2, 4, 1}));
  files.tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  EXPECT_EQ(tokenizer_of(files).encode("a", false, true), (Tokens{5, 0}));
  files.tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "a|b"}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  EXPECT_EQ(tokenizer_of(files).encode("ab"), (Tokens{0, 1}));
  files.tokenizer["model"]["ignore_merges"] = true;
  files.tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", "ab"}};
  files.tokenizer["model"]["merges"] = nlohmann::json::array();
  EXPECT_EQ(tokenizer_of(files).encode("ab"), (Tokens{2}));
}

TEST(TokenizerJson, TextsAreComposedWhereTheFileSaysSo) {
  HuggingFaceFiles files = small_files();
  const std::string accent = "a\u0301";  // two code points, which are one: the bytes c3 a1
  files.tokenizer["model"]["vocab"].update({{"\u00c3", 8}, {"\u00a1", 9}, {"\u00cc", 10}, {"\u0123", 11}});
  EXPECT_EQ(tokenizer_of(files).encode(accent), (Tokens{0, 10, 11}));
  files.tokenizer["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(tokenizer_of(files).encode(accent), (Tokens{8, 9}));
}

TEST(TokenizerJson, EndsOfGenerationAndChatTemplates) {
  HuggingFaceFiles files = small_files();
  files.generation = {{"eos_token_id", {2, 1}}};
  files.tokenizer_config = {{"bos_token", {{"content", "TOOL"}}}, {"chat_template", "{{ 1 }}"}};
  const Metadata metadata = hugging_face_tokenizer(files);
  EXPECT_EQ(std::get<std::string>(metadata.at("tokenizer.chat_template")), "{{ 1 }}");
  const Tokenizer tokenizer(Gguf("folder", metadata, {}));
  for (const int32_t id : {1, 2, 5}) EXPECT_TRUE(tokenizer.ends_text(id)) << id;
  EXPECT_FALSE(tokenizer.ends_text(0));
  EXPECT_EQ(tokenizer.begin_token(), 7);
  files.config["bos_token_id"] = 2;
  files.tokenizer_config["bos_token"] = nullptr;
  EXPECT_EQ(tokenizer_of(files).begin_token(), -1);
  files.tokenizer_config = nullptr;
  EXPECT_EQ(tokenizer_of(files).begin_token(), 2);
  files.tokenizer_config = nlohmann::json::object();
  files.tokenizer_config["chat_template"] = {{{"name", "tools"}, {"template", "x"}},
                                             {{"name", "default"}, {"template", "y"}}};
  EXPECT_EQ(std::get<std::string>(hugging_face_tokenizer(files).at("tokenizer.chat_template")), "y");
}

TEST(TokenizerJson, RefusesByName) {
  const auto wrong = [](const std::string& part, const char* place, const nlohmann::json& value,
                        ErrorCode code = ErrorCode::Unsupported) {
    HuggingFaceFiles files = small_files();
    files.tokenizer[nlohmann::json::json_pointer(place)] = value;
    expect_error(code, part, [&] { tokenizer_of(files); });
  };
  wrong("a model of the type 'Unigram'", "/model/type", "Unigram");
  wrong("the pre-tokenizer 'Whitespace'", "/pre_tokenizer/type", "Whitespace");
  wrong("'ByteLevel'", "/pre_tokenizer", nullptr);
  wrong("the normalizer 'Lowercase'", "/normalizer", {{"type", "Lowercase"}});
  wrong("the post-processor 'BertProcessing'", "/post_processor", {{"type", "BertProcessing"}});
  wrong("'lstrip' of the token '<end>'", "/added_tokens/0/lstrip", true);
  wrong("there cannot be a token -1", "/added_tokens/0/id", -1, ErrorCode::InvalidModel);
  wrong("there cannot be a token 99999999", "/added_tokens/0/id", 99999999, ErrorCode::InvalidModel);
  wrong("merge 0 is no pair", "/model/merges", {1}, ErrorCode::InvalidModel);
  wrong("has no number", "/model/vocab", {{"a", "b"}}, ErrorCode::InvalidModel);
  wrong("'vocab' is missing", "/model", {{"merges", nlohmann::json::array()}}, ErrorCode::InvalidModel);
}

// The vocabularies of three GGUF files as tokenizer.json says them: the same tokens for the same texts.
TEST(TokenizerJson, AgreesWithGguf) {
  const std::filesystem::path folder = test_data() / "llm" / "vocab";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  for (const char* name : {"gpt-2", "deepseek-coder", "llama-spm"}) {
    SCOPED_TRACE(name);
    const std::string path = (folder / (std::string("ggml-vocab-") + name + ".gguf")).string();
    const TextModelFile file(path);
    const Tokenizer want{file.head()};
    HuggingFaceFiles files;
    files.subject = name;
    nlohmann::json& model = files.tokenizer["model"];
    model = {{"type", "BPE"}, {"vocab", nlohmann::json::object()}, {"merges", nlohmann::json::array()}};
    files.tokenizer["added_tokens"] = nlohmann::json::array();
    const std::vector<std::string>& texts = file.head().texts("tokenizer.ggml.tokens");
    for (int32_t id = 0; id < want.size(); ++id) {
      const std::string& text = texts[static_cast<size_t>(id)];
      const int64_t kind = file.head().integers("tokenizer.ggml.token_type")[static_cast<size_t>(id)];
      if (kind == 3 || kind == 4)
        files.tokenizer["added_tokens"].push_back({{"id", id}, {"content", text}, {"special", kind == 3}});
      else
        model["vocab"][text] = id;
    }
    if (name == std::string("llama-spm")) {
      // A pair of each token, in the order of scores.
      model["byte_fallback"] = true;
      model["unk_token"] = "<unk>";
      const std::vector<double>& scores = file.head().numbers("tokenizer.ggml.scores");
      std::vector<int32_t> order;
      for (int32_t id = 259; id < want.size(); ++id) order.push_back(id);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
      for (const int32_t id : order) {
        const std::string& text = texts[static_cast<size_t>(id)];
        const size_t first = unicode::first_character(text).bytes;
        if (first < text.size()) model["merges"].push_back({text.substr(0, first), text.substr(first)});
      }
      files.tokenizer["normalizer"] = {
          {"type", "Sequence"},
          {"normalizers",
           {{{"type", "Prepend"}, {"prepend", "\u2581"}},
            {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}};
    } else {
      for (const std::string& merge : file.head().texts("tokenizer.ggml.merges")) model["merges"].push_back(merge);
      const auto split = [](const char* pattern) {
        return nlohmann::json{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
      };
      files.tokenizer["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
      if (name == std::string("deepseek-coder"))
        files.tokenizer["pre_tokenizer"] = {
            {"type", "Sequence"},
            {"pretokenizers",
             {split("[\r\n]"),
              split("\\s?\\p{L}+"),
              split("\\s?\\p{P}+"),
              split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
              {{"type", "Digits"}, {"individual_digits", true}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    }
    const Tokenizer got = tokenizer_of(files);
    const std::vector<uint8_t> bytes = read_bytes(path + ".inp");
    std::istringstream lines(std::string(bytes.begin(), bytes.end()));
    for (std::string line; std::getline(lines, line);) EXPECT_EQ(got.encode(line), want.encode(line)) << line;
  }
}

}  // namespace
}  // namespace gyrus::test
