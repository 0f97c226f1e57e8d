#include <array>
#include <queue>

#include "text/algorithm.h"
#include "text/unicode.h"

// After Kudo and Richardson, "SentencePiece" (2018), in the variant of Llama's files: scores are ranks of merges.

namespace gyrus {
namespace {

constexpr std::string_view kSpace = "\u2581";  // stands for a space in tokens

// A row of characters that was joined; empty where it was joined to the one before it.
struct Symbol {
  int32_t before = -1, after = -1;  // symbols, −1: none
  size_t start = 0, size = 0;       // bytes
};

struct Pair {
  int32_t left = 0, right = 0;
  float score = 0;
  size_t size = 0;  // bytes, when it was found
  // The best score first, of equal ones the leftmost.
  bool operator<(const Pair& other) const { return score != other.score ? score < other.score : left > other.left; }
};

class Joiner {
 public:
  Joiner(const Vocabulary& vocabulary, std::string_view text) : vocabulary_(vocabulary), text_(text) {
    for (size_t at = 0; at < text.size();) {
      const size_t size = unicode::first_character(text.substr(at)).bytes;
      const auto index = static_cast<int32_t>(symbols_.size());
      symbols_.push_back({index - 1, at + size < text.size() ? index + 1 : -1, at, size});
      at += size;
    }
    for (int32_t i = 1; i < static_cast<int32_t>(symbols_.size()); ++i) consider(i - 1, i);
  }

  // Every token's text, in order.
  template <class Emit>
  void run(const Emit& emit) {
    while (!queue_.empty()) {
      const Pair pair = queue_.top();
      queue_.pop();
      Symbol& left = symbol(pair.left);
      Symbol& right = symbol(pair.right);
      if (left.size == 0 || right.size == 0 || left.size + right.size != pair.size) continue;  // joined since
      left.size += right.size;
      right.size = 0;
      left.after = right.after;
      if (right.after >= 0) symbol(right.after).before = pair.left;
      consider(left.before, pair.left);
      consider(pair.left, left.after);
    }
    for (int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbol(i).after)
      emit(text_.substr(symbol(i).start, symbol(i).size));
  }

 private:
  Symbol& symbol(int32_t index) { return symbols_[static_cast<size_t>(index)]; }
  void consider(int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const size_t size = symbol(left).size + symbol(right).size;
    const int32_t token = vocabulary_.find(text_.substr(symbol(left).start, size));
    if (token != Vocabulary::kNone) queue_.push({left, right, vocabulary_.scores[static_cast<size_t>(token)], size});
  }

  const Vocabulary& vocabulary_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Pair> queue_;
};

class SentencePiece : public TokenAlgorithm {
 public:
  SentencePiece(const Vocabulary& vocabulary, const Gguf& gguf)
      : vocabulary_(vocabulary), adds_space_(gguf.boolean("tokenizer.ggml.add_space_prefix", true)) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    for (uint32_t byte = 0; byte < 256; ++byte) {
      bytes_[byte] = vocabulary.find(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
      if (bytes_[byte] == Vocabulary::kNone) bytes_[byte] = vocabulary.find(std::string(1, static_cast<char>(byte)));
    }
  }

  void encode(std::string_view text, bool starts, std::vector<int32_t>& out) const override {
    std::string escaped;
    escaped.reserve(text.size() + kSpace.size());
    if (starts && adds_space_ && !text.empty()) escaped += kSpace;
    for (const char c : text) c == ' ' ? escaped += kSpace : escaped += c;
    Joiner(vocabulary_, escaped).run([&](std::string_view piece) { emit(piece, out); });
  }

  std::string piece(int32_t token) const override {
    if (token == vocabulary_.unknown || vocabulary_.is(token, TokenKind::Unknown)) return " \u2047 ";
    const std::string& text = vocabulary_.texts[static_cast<size_t>(token)];
    if (vocabulary_.is(token, TokenKind::Byte)) {
      for (uint32_t byte = 0; byte < 256; ++byte) {
        if (bytes_[byte] == token) return std::string(1, static_cast<char>(byte));
      }
    }
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const bool space = std::string_view(text).substr(at, kSpace.size()) == kSpace;
      out += space ? ' ' : text[at];
      at += space ? kSpace.size() : 1;
    }
    return out;
  }

  bool adds_space() const override { return adds_space_; }

 private:
  void emit(std::string_view piece, std::vector<int32_t>& out) const {
    if (const int32_t token = vocabulary_.find(piece); token != Vocabulary::kNone) return out.push_back(token);
    for (const char c : piece) {
      const int32_t byte = bytes_[static_cast<uint8_t>(c)];
      const int32_t token = byte != Vocabulary::kNone ? byte : vocabulary_.unknown;
      if (token == Vocabulary::kNone) {
        fail(ErrorCode::InvalidModel, vocabulary_.subject, "has neither a token for the byte ", static_cast<uint8_t>(c),
             " nor one for what is unknown");
      }
      out.push_back(token);
    }
  }

  const Vocabulary& vocabulary_;
  bool adds_space_;
  std::array<int32_t, 256> bytes_{};
};

}  // namespace

std::unique_ptr<TokenAlgorithm> make_sentence_piece(const Vocabulary& vocabulary, const Gguf& gguf) {
  return std::make_unique<SentencePiece>(vocabulary, gguf);
}

}  // namespace gyrus
