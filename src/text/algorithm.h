#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace gyrus {

// How a tokenizer cuts plain text, in which there is no special token.
class TokenAlgorithm {
 public:
  virtual ~TokenAlgorithm() = default;
  // Appends the tokens of a text. `starts`: at the start of the whole text or behind a special token.
  virtual void encode(std::string_view text, bool starts, std::vector<int32_t>& out) const = 0;
  // The bytes of a token that is not a special one.
  virtual std::string piece(int32_t token) const = 0;
  // Whether the first piece of a text has a space that the text has not.
  virtual bool adds_space() const = 0;
};

// SentencePiece: characters are joined in pairs, the pair whose token has the best score first; what is no token then
// is written in bytes.
std::unique_ptr<TokenAlgorithm> make_sentence_piece(const Vocabulary& vocabulary, const Gguf& gguf);
// Byte-pair encoding over bytes: the text is cut by the patterns of the pre-tokenizer, the pair that was learnt first
// is joined first. Throws Unsupported, with its name, on an unknown pre-tokenizer.
std::unique_ptr<TokenAlgorithm> make_byte_pairs(const Vocabulary& vocabulary, const Gguf& gguf);
// WordPiece: words in small letters without accents, the longest token first.
std::unique_ptr<TokenAlgorithm> make_word_piece(const Vocabulary& vocabulary, const Gguf& gguf);

// A pre-tokenizer by the name that files give it ("tokenizer.ggml.pre").
struct PreTokenizer {
  std::vector<const char*> patterns;
  bool whole_words = false;  // a word that is a token is that token, whatever the merges make of it
  bool adds_begin = false;   // where the file does not say
};
PreTokenizer pre_tokenizer(const std::string& name, const std::string& subject);
// All names, for documentation and tests.
std::vector<std::string> pre_tokenizer_names();

}  // namespace gyrus
