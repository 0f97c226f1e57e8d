#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/gguf.h"

namespace gyrus {

// The kinds of tokens, with the numbers of GGUF files.
enum class TokenKind : uint8_t { Normal = 1, Unknown, Control, UserDefined, Unused, Byte };

// The tokens of a model: texts as the file has them, kinds, scores, and which ones have a part to play.
struct Vocabulary {
  // From the keys "tokenizer.ggml.…". Throws InvalidModel where lists are absent or differ in length, or an id is none.
  explicit Vocabulary(const Gguf& gguf);

  static constexpr int32_t kNone = -1;
  int32_t find(std::string_view text) const;  // or kNone
  int32_t size() const { return static_cast<int32_t>(texts.size()); }
  bool is(int32_t token, TokenKind kind) const { return kinds[static_cast<size_t>(token)] == kind; }

  std::string subject;
  std::vector<std::string> texts;
  std::vector<TokenKind> kinds;
  std::vector<float> scores;  // zeros where the file has none
  int32_t begin = kNone, end = kNone, unknown = kNone, separator = kNone, classify = kNone;
  std::vector<bool> ends_text;  // of each token

 private:
  std::unordered_map<std::string_view, int32_t> by_text_;  // views of `texts`

 public:
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
};

}  // namespace gyrus
