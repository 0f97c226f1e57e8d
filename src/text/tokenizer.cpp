#include "text/tokenizer.h"

#include <algorithm>

#include "text/algorithm.h"
#include "text/unicode.h"

namespace gyrus {
namespace {

constexpr const char* kModelKey = "tokenizer.ggml.model";

std::unique_ptr<TokenAlgorithm> make_algorithm(const Vocabulary& vocabulary, const Gguf& gguf) {
  const std::string& model = gguf.text(kModelKey);
  if (model == "llama") return make_sentence_piece(vocabulary, gguf);
  if (model == "gpt2") return make_byte_pairs(vocabulary, gguf);
  if (model == "bert") return make_word_piece(vocabulary, gguf);
  fail(ErrorCode::Unsupported, gguf.subject(), "has the tokenizer ", in_quotes(model),
       "; gyrus knows 'llama' (SentencePiece), 'gpt2' (byte pairs) and 'bert' (WordPiece)");
}

// A text that is a token wherever it stands.
struct Special {
  std::string_view text;
  int32_t token;
  bool control;      // only where special tokens were asked for
  bool eats_spaces;  // those behind it
};

}  // namespace

struct TokenizerParts {
  explicit TokenizerParts(const Gguf& gguf) : vocabulary(gguf), algorithm(make_algorithm(vocabulary, gguf)) {
    const std::string& model = gguf.text(kModelKey);
    const bool bert = model == "bert";
    if (bert && vocabulary.begin == Vocabulary::kNone) vocabulary.begin = vocabulary.classify;
    if (bert && vocabulary.end == Vocabulary::kNone) vocabulary.end = vocabulary.separator;
    bool begins = model == "llama" || bert;
    if (model == "gpt2") begins = pre_tokenizer(gguf.text("tokenizer.ggml.pre", "default"), "").adds_begin;
    adds_begin = gguf.boolean("tokenizer.ggml.add_bos_token", begins) && vocabulary.begin != Vocabulary::kNone;
    adds_end = gguf.boolean("tokenizer.ggml.add_eos_token", bert) && vocabulary.end != Vocabulary::kNone;
    space_once = gguf.boolean("gyrus.tokenizer.space_once", false);
    find_specials(gguf.text("general.architecture", ""));
  }

  void find_specials(const std::string& architecture) {
    for (int32_t token = 0; token < vocabulary.size(); ++token) {
      const std::string& text = vocabulary.texts[static_cast<size_t>(token)];
      const bool user = vocabulary.is(token, TokenKind::UserDefined);
      const bool control = vocabulary.is(token, TokenKind::Control) || vocabulary.is(token, TokenKind::Unknown);
      if (text.empty() || (!user && !control)) continue;
      // Phi-3's tokens take the spaces behind them; GGUF has no key for that.
      const bool eats = architecture == "phi3" && text != "<|endoftext|>" && text != "<s>" && text != "<unk>";
      specials.push_back({text, token, control, eats});
    }
    // The longest first, so that the first that matches at a place is the one.
    std::stable_sort(specials.begin(), specials.end(),
                     [](const Special& a, const Special& b) { return a.text.size() > b.text.size(); });
    first_bytes.resize(256);
    for (size_t i = 0; i < specials.size(); ++i) first_bytes[static_cast<uint8_t>(specials[i].text[0])].push_back(i);
  }

  const Special* special_at(std::string_view text, size_t at, bool control) const {
    for (const size_t i : first_bytes[static_cast<uint8_t>(text[at])]) {
      const Special& special = specials[i];
      if ((control || !special.control) && text.compare(at, special.text.size(), special.text) == 0) return &special;
    }
    return nullptr;
  }

  Vocabulary vocabulary;
  std::unique_ptr<TokenAlgorithm> algorithm;
  bool adds_begin = false, adds_end = false;
  bool space_once = false;  // added to the start of a text, but not behind special tokens
  std::vector<Special> specials;
  std::vector<std::vector<size_t>> first_bytes;  // of specials, by their first byte
};

Tokenizer::Tokenizer(const Gguf& gguf) : parts_(std::make_shared<const TokenizerParts>(gguf)) {}

int32_t Tokenizer::size() const { return parts_->vocabulary.size(); }
int32_t Tokenizer::begin_token() const { return parts_->vocabulary.begin; }
int32_t Tokenizer::end_token() const { return parts_->vocabulary.end; }
bool Tokenizer::adds_begin() const { return parts_->adds_begin; }
bool Tokenizer::adds_end() const { return parts_->adds_end; }
bool Tokenizer::adds_space_behind(int32_t token) const { return !parts_->space_once && is_control(token); }
bool Tokenizer::adds_space() const { return parts_->algorithm->adds_space(); }

const std::string& Tokenizer::raw(int32_t token) const {
  if (token < 0 || token >= size())
    fail(ErrorCode::InvalidInput, parts_->vocabulary.subject, "there is no token ", token, "; the last is ",
         size() - 1);
  return parts_->vocabulary.texts[static_cast<size_t>(token)];
}
bool Tokenizer::ends_text(int32_t token) const {
  return token >= 0 && token < size() && parts_->vocabulary.ends_text[static_cast<size_t>(token)];
}
bool Tokenizer::is_control(int32_t token) const {
  return token >= 0 && token < size() && parts_->vocabulary.is(token, TokenKind::Control);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool special, bool begin) const {
  std::vector<int32_t> out;
  if (begin && adds_begin()) out.push_back(begin_token());
  size_t from = 0;  // of plain text
  bool starts = true;
  const auto plain = [&](size_t end) {
    if (end > from) {
      parts_->algorithm->encode(text.substr(from, end - from), starts, out);
      starts = false;
    }
  };
  for (size_t at = 0; at < text.size();) {
    const Special* const found = parts_->special_at(text, at, special);
    if (!found) {
      ++at;
      continue;
    }
    plain(at);
    out.push_back(found->token);
    at += found->text.size();
    while (found->eats_spaces && at < text.size() && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r'))) ++at;
    from = at;
    starts = !parts_->space_once;
  }
  plain(text.size());
  if (begin && adds_end()) out.push_back(end_token());
  return out;
}

std::string Tokenizer::piece(int32_t token, bool special) const {
  const std::string& text = raw(token);
  const Vocabulary& vocabulary = parts_->vocabulary;
  if (vocabulary.is(token, TokenKind::Control)) return special ? text : std::string();
  if (vocabulary.is(token, TokenKind::UserDefined)) return text;
  return parts_->algorithm->piece(token);
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, bool special) const {
  std::string out;
  bool starts = adds_space();
  for (const int32_t token : tokens) {
    const std::string text = piece(token, special);
    const bool cut = starts && !text.empty() && text[0] == ' ' && !is_control(token);
    out.append(text, cut ? 1 : 0);
    // A space is added behind special tokens too.
    starts = adds_space() && (adds_space_behind(token) || (starts && text.empty()));
  }
  return out;
}

std::string TextDecoder::push(int32_t token) {
  std::string text = tokenizer_.piece(token, special_);
  const bool control = tokenizer_.is_control(token);
  if (starts_ && tokenizer_.adds_space() && !control && !text.empty() && text[0] == ' ') text.erase(0, 1);
  starts_ = tokenizer_.adds_space_behind(token) || (starts_ && text.empty());
  waiting_ += text;
  const size_t keep = unicode::unfinished_bytes(waiting_);
  std::string out;
  std::string_view whole = std::string_view(waiting_).substr(0, waiting_.size() - keep);
  while (!whole.empty()) {  // bytes that are no UTF-8 become U+FFFD
    const unicode::Character character = unicode::first_character(whole);
    unicode::append_utf8(out, character.code);
    whole.remove_prefix(character.bytes);
  }
  waiting_.erase(0, waiting_.size() - keep);
  return out;
}

std::string TextDecoder::finish() {
  const bool empty = waiting_.empty();
  waiting_.clear();
  return empty ? std::string() : "\ufffd";
}

}  // namespace gyrus
