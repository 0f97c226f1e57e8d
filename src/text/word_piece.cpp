#include <algorithm>

#include "text/algorithm.h"
#include "text/unicode.h"

// WordPiece as BERT has it. In GGUF files the tokens that start a word have U+2581 before them, the others nothing.

namespace gyrus {
namespace {

constexpr std::string_view kStart = "\u2581";
constexpr size_t kLongestWord = 100;  // code points; longer ones are unknown

bool is_ideograph(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                                       {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf},
                                                       {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [&](const auto& range) { return code >= range.first && code <= range.second; });
}

// Whether a character is a word of its own.
bool stands_alone(uint32_t code) {
  return unicode::is_punctuation(code) || (code < 0x80 && unicode::is_symbol(code)) || is_ideograph(code);
}

// Control characters, of which only these three are spaces, are left out: words on both sides of others are one.
bool is_dropped(uint32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  const unicode::Category category = unicode::category(code);
  return code == 0 || code == 0xfffd || category == unicode::Category::Cc || category == unicode::Category::Cf ||
         category == unicode::Category::Co || category == unicode::Category::Cs;
}

class WordPiece : public TokenAlgorithm {
 public:
  WordPiece(const Vocabulary& vocabulary, const Gguf& gguf)
      : vocabulary_(vocabulary), lower_(gguf.boolean("tokenizer.ggml.normalizer.lowercase", true)) {
    if (vocabulary.unknown == Vocabulary::kNone)
      fail(ErrorCode::InvalidModel, vocabulary.subject, "has no metadata 'tokenizer.ggml.unknown_token_id'");
    for (const std::string& text : vocabulary.texts) longest_ = std::max(longest_, text.size());
  }

  void encode(std::string_view text, bool, std::vector<int32_t>& out) const override {
    std::vector<uint32_t> word;
    const auto end_word = [&] {
      if (!word.empty()) encode_word(word, out);
      word.clear();
    };
    std::vector<uint32_t> parts;
    while (!text.empty()) {
      const unicode::Character character = unicode::first_character(text);
      text.remove_prefix(character.bytes);
      if (is_dropped(character.code)) continue;
      if (unicode::is_space(character.code)) {
        end_word();
        continue;
      }
      parts.clear();
      lower_ ? unicode::decompose(character.code, parts) : parts.push_back(character.code);
      for (const uint32_t part : parts) {
        if (lower_ && unicode::category(part) == unicode::Category::Mn) continue;  // an accent
        const bool alone = stands_alone(part);
        if (alone) end_word();
        word.push_back(lower_ ? unicode::lower(part) : part);
        if (alone) end_word();
      }
    }
    end_word();
  }

  std::string piece(int32_t token) const override {
    const std::string& text = vocabulary_.texts[static_cast<size_t>(token)];
    if (text.compare(0, kStart.size(), kStart) == 0) return " " + text.substr(kStart.size());
    return text;
  }

  bool adds_space() const override { return true; }

 private:
  void encode_word(const std::vector<uint32_t>& word, std::vector<int32_t>& out) const {
    std::string text(kStart);
    for (const uint32_t code : word) unicode::append_utf8(text, code);
    const size_t before = out.size();
    const std::string_view all(text);
    size_t at = 0;
    while (word.size() <= kLongestWord && at < all.size()) {
      size_t size = std::min(longest_, all.size() - at);
      int32_t token = Vocabulary::kNone;
      // Longest first. The mark alone is no part of a word.
      for (; size > 0 && (at > 0 || size > kStart.size()); --size) {
        token = vocabulary_.find(all.substr(at, size));
        if (token != Vocabulary::kNone) break;
      }
      if (token == Vocabulary::kNone) break;
      out.push_back(token);
      at += size;
    }
    if (at == all.size()) return;
    out.resize(before);
    out.push_back(vocabulary_.unknown);
  }

  const Vocabulary& vocabulary_;
  bool lower_;
  size_t longest_ = 0;  // bytes of a token
};

}  // namespace

std::unique_ptr<TokenAlgorithm> make_word_piece(const Vocabulary& vocabulary, const Gguf& gguf) {
  return std::make_unique<WordPiece>(vocabulary, gguf);
}

}  // namespace gyrus
