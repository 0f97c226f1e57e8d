#include <array>
#include <queue>

#include "text/algorithm.h"
#include "text/pattern.h"
#include "text/unicode.h"

// Byte-pair encoding as GPT-2 introduced it: tokens are written in an alphabet of 256 printable characters, one for
// each byte.

namespace gyrus {
namespace {

// The character of each byte: itself where that is printable in Latin-1, else the next ones from U+0100 on.
std::array<uint32_t, 256> byte_alphabet() {
  std::array<uint32_t, 256> out{};
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    out[byte] = printable ? byte : next++;
  }
  return out;
}

struct Merge {
  int32_t rank = 0, result = 0;
};

struct Pair {
  int32_t rank = 0, left = 0, right = 0;  // the places of the symbols in the word
  int32_t left_symbol = 0, right_symbol = 0, result = 0;
  bool operator<(const Pair& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

class BytePairs : public TokenAlgorithm {
 public:
  BytePairs(const Vocabulary& vocabulary, const Gguf& gguf) : vocabulary_(vocabulary) {
    read_patterns(gguf);
    adds_space_ = gguf.boolean("tokenizer.ggml.add_space_prefix", false);
    composes_ = gguf.boolean("gyrus.tokenizer.composed", false);
    const std::array<uint32_t, 256> alphabet = byte_alphabet();
    for (uint32_t byte = 0; byte < 256; ++byte) {
      std::string text;
      unicode::append_utf8(text, alphabet[byte]);
      byte_of_[alphabet[byte]] = static_cast<char>(byte);
      letters_[byte] = text;
      symbols_[byte] = vocabulary.find(text);
    }
    read_merges(gguf.texts("tokenizer.ggml.merges"));
  }

  void encode(std::string_view text, bool starts, std::vector<int32_t>& out) const override {
    std::string changed;
    if (composes_) text = changed = unicode::composed(text);
    if (starts && adds_space_ && !text.empty()) text = changed = " " + std::string(text);
    std::vector<uint32_t> codes;
    std::vector<size_t> offsets;  // bytes, of each code point and of the end
    for (size_t at = 0; at < text.size();) {
      const unicode::Character character = unicode::first_character(text.substr(at));
      codes.push_back(character.code);
      offsets.push_back(at);
      at += character.bytes;
    }
    offsets.push_back(text.size());
    size_t from = 0;
    for (const size_t end : split_by(patterns_, codes)) {
      encode_word(text.substr(from, offsets[end] - from), out);
      from = offsets[end];
    }
  }

  std::string piece(int32_t token) const override {
    const std::string& text = vocabulary_.texts[static_cast<size_t>(token)];
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const unicode::Character character = unicode::first_character(std::string_view(text).substr(at));
      const auto byte = byte_of_.find(character.code);
      // A character outside the alphabet: the token was added as plain text.
      if (byte == byte_of_.end()) return text;
      out += byte->second;
      at += character.bytes;
    }
    return out;
  }

  bool adds_space() const override { return adds_space_; }

 private:
  // By the name of a pre-tokenizer; files of transformers have the patterns themselves.
  void read_patterns(const Gguf& gguf) {
    constexpr const char* kOwn = "gyrus.tokenizer.patterns";
    if (gguf.has(kOwn)) {
      for (const std::string& pattern : gguf.texts(kOwn)) patterns_.emplace_back(pattern);
      whole_words_ = gguf.boolean("gyrus.tokenizer.whole_words", false);
      return;
    }
    const PreTokenizer found = pre_tokenizer(gguf.text("tokenizer.ggml.pre", "default"), vocabulary_.subject);
    for (const char* const pattern : found.patterns) patterns_.emplace_back(pattern);
    whole_words_ = found.whole_words;
  }

  // Pairs go by numbers: a token's own, or, of a text that is no token, one from the end of the vocabulary on.
  void read_merges(const std::vector<std::string>& merges) {
    std::unordered_map<std::string, int32_t> others;
    const auto symbol = [&](const std::string& text) {
      const int32_t token = vocabulary_.find(text);
      if (token != Vocabulary::kNone) return token;
      return others.emplace(text, vocabulary_.size() + static_cast<int32_t>(others.size())).first->second;
    };
    merges_.reserve(merges.size());
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const std::string& merge = merges[rank];
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos || space + 1 == merge.size())
        fail(ErrorCode::InvalidModel, vocabulary_.subject, "merge ", rank, " is no pair: ", in_quotes(merge));
      const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
      merges_.emplace(key(symbol(left), symbol(right)), Merge{static_cast<int32_t>(rank), symbol(left + right)});
    }
  }
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  void encode_word(std::string_view word, std::vector<int32_t>& out) const {
    if (whole_words_) {
      std::string text;
      for (const char c : word) text += letters_[static_cast<uint8_t>(c)];
      if (const int32_t token = vocabulary_.find(text); token != Vocabulary::kNone) return out.push_back(token);
    }
    join(word, out);
  }

  struct Symbol {
    int32_t id = 0, before = 0, after = 0;
    size_t start = 0, bytes = 0;
  };

  void consider(const std::vector<Symbol>& word, int32_t left, std::priority_queue<Pair>& queue) const {
    if (left < 0) return;
    const Symbol& first = word[static_cast<size_t>(left)];
    if (first.after < 0) return;
    const Symbol& second = word[static_cast<size_t>(first.after)];
    const auto found = merges_.find(key(first.id, second.id));
    if (found == merges_.end()) return;
    queue.push({found->second.rank, left, first.after, first.id, second.id, found->second.result});
  }

  void join(std::string_view bytes, std::vector<int32_t>& out) const {
    std::vector<Symbol> word;
    const auto count = static_cast<int32_t>(bytes.size());
    for (int32_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      word.push_back({symbols_[static_cast<uint8_t>(bytes[at])], i - 1, i + 1 < count ? i + 1 : -1, at, 1});
    }
    std::priority_queue<Pair> queue;
    for (int32_t i = 0; i < count; ++i) consider(word, i, queue);
    while (!queue.empty()) {
      const Pair pair = queue.top();
      queue.pop();
      Symbol& left = word[static_cast<size_t>(pair.left)];
      Symbol& right = word[static_cast<size_t>(pair.right)];
      // Either was joined since.
      if (left.bytes == 0 || right.bytes == 0 || left.after != pair.right || left.id != pair.left_symbol ||
          right.id != pair.right_symbol)
        continue;
      left.id = pair.result;
      left.bytes += right.bytes;
      left.after = right.after;
      right.bytes = 0;
      if (right.after >= 0) word[static_cast<size_t>(right.after)].before = pair.left;
      consider(word, left.before, queue);
      consider(word, pair.left, queue);
    }
    for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = word[static_cast<size_t>(i)].after)
      emit(word[static_cast<size_t>(i)], bytes, out);
  }

  // What is no token is written in tokens of one byte; a byte without one is left out, or unknown.
  void emit(const Symbol& symbol, std::string_view bytes, std::vector<int32_t>& out) const {
    if (symbol.id >= 0 && symbol.id < vocabulary_.size()) return out.push_back(symbol.id);
    for (const char c : bytes.substr(symbol.start, symbol.bytes)) {
      const int32_t single = symbols_[static_cast<uint8_t>(c)];
      const int32_t token = single != Vocabulary::kNone ? single : vocabulary_.unknown;
      if (token == Vocabulary::kNone) {
        fail(ErrorCode::InvalidModel, vocabulary_.subject, "has neither a token for the byte ", static_cast<uint8_t>(c),
             " nor one for what is unknown");
      }
      out.push_back(token);
    }
  }

  const Vocabulary& vocabulary_;
  std::vector<Pattern> patterns_;
  bool whole_words_ = false, adds_space_ = false;
  bool composes_ = false;  // texts become NFC first
  std::array<std::string, 256> letters_;
  std::array<int32_t, 256> symbols_{};
  std::unordered_map<uint32_t, char> byte_of_;
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace

std::unique_ptr<TokenAlgorithm> make_byte_pairs(const Vocabulary& vocabulary, const Gguf& gguf) {
  return std::make_unique<BytePairs>(vocabulary, gguf);
}

}  // namespace gyrus
