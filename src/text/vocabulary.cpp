#include "text/vocabulary.h"

#include <algorithm>

namespace gyrus {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 24;
constexpr const char* kPrefix = "tokenizer.ggml.";

// Tokens that end a turn or a text in the models that gyrus knows, where the file names only one of them.
constexpr std::string_view kEndTexts[] = {
    "<|eot_id|>", "<|eom_id|>",    "<|end_of_text|>", "<|im_end|>",
    "<|end|>",    "<end_of_turn>", "<|endoftext|>",   "<|END_OF_TURN_TOKEN|>",
    "<EOT>",      "<|EOT|>",       "<|return|>",      "<\uff5cend\u2581of\u2581sentence\uff5c>",
};

std::vector<TokenKind> read_kinds(const Gguf& gguf, size_t count) {
  const std::string key = cat(kPrefix, "token_type");
  std::vector<TokenKind> kinds(count, TokenKind::Normal);
  if (!gguf.has(key)) return kinds;
  const std::vector<int64_t> numbers = gguf.integers(key, count);
  for (size_t i = 0; i < count; ++i) {
    if (numbers[i] < 0 || numbers[i] > 6)
      fail(ErrorCode::InvalidModel, gguf.subject(), "token ", i, " has the unknown type ", numbers[i]);
    if (numbers[i] != 0) kinds[i] = static_cast<TokenKind>(numbers[i]);
  }
  return kinds;
}

std::vector<float> read_scores(const Gguf& gguf, size_t count) {
  const std::string key = cat(kPrefix, "scores");
  if (!gguf.has(key)) return std::vector<float>(count);
  const std::vector<double>& numbers = gguf.numbers(key);
  if (numbers.size() != count)
    fail(ErrorCode::InvalidModel, gguf.subject(), "has ", count, " tokens, but ", numbers.size(), " scores");
  return {numbers.begin(), numbers.end()};
}

int32_t read_id(const Gguf& gguf, const char* name, size_t count) {
  const std::string key = cat(kPrefix, name, "_token_id");
  if (!gguf.has(key)) return Vocabulary::kNone;
  const int64_t id = gguf.integer(key);
  // Some writers mean none by −1, which is all ones in the file.
  if (id == -1 || id == 0xffffffff) return Vocabulary::kNone;
  if (id < 0 || id >= static_cast<int64_t>(count))
    fail(ErrorCode::InvalidModel, gguf.subject(), "metadata '", key, "': there is no token ", id);
  return static_cast<int32_t>(id);
}

}  // namespace

Vocabulary::Vocabulary(const Gguf& gguf) : subject(gguf.subject()), texts(gguf.texts(cat(kPrefix, "tokens"))) {
  if (texts.empty()) fail(ErrorCode::InvalidModel, subject, "has no tokens");
  kinds = read_kinds(gguf, texts.size());
  scores = read_scores(gguf, texts.size());
  begin = read_id(gguf, "bos", texts.size());
  end = read_id(gguf, "eos", texts.size());
  unknown = read_id(gguf, "unknown", texts.size());
  separator = read_id(gguf, "seperator", texts.size());  // as the format spells it
  if (separator == kNone) separator = read_id(gguf, "separator", texts.size());
  classify = read_id(gguf, "cls", texts.size());
  // Matrices often have more rows than there are tokens, to be a round number: tokens without a text.
  const GgufTensor* const embedding = gguf.find("token_embd.weight");
  if (embedding && embedding->shape.size() == 2 && embedding->shape[0] > size() && embedding->shape[0] <= kMostRows) {
    texts.resize(static_cast<size_t>(embedding->shape[0]));
    kinds.resize(texts.size(), TokenKind::Unused);
    scores.resize(texts.size());
  }
  by_text_.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) by_text_.emplace(texts[i], static_cast<int32_t>(i));

  ends_text.resize(texts.size());
  for (const int32_t id : {end, read_id(gguf, "eot", texts.size()), read_id(gguf, "eom", texts.size())}) {
    if (id != kNone) ends_text[static_cast<size_t>(id)] = true;
  }
  constexpr const char* kEnds = "gyrus.tokenizer.ends";  // of files that transformers wrote
  for (const int64_t id : gguf.has(kEnds) ? gguf.integers(kEnds) : std::vector<int64_t>{}) {
    if (id >= 0 && id < size()) ends_text[static_cast<size_t>(id)] = true;
  }
  for (const std::string_view text : kEndTexts) {
    const int32_t id = find(text);
    if (id != kNone && (is(id, TokenKind::Control) || is(id, TokenKind::UserDefined)))
      ends_text[static_cast<size_t>(id)] = true;
  }
}

int32_t Vocabulary::find(std::string_view text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? kNone : found->second;
}

}  // namespace gyrus
