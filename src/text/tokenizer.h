#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/gguf.h"

namespace gyrus {

struct TokenizerParts;

// Text to tokens and back, as the metadata of a GGUF file says. Copies are the same tokenizer; any thread may use it.
class Tokenizer {
 public:
  // Throws InvalidModel, or Unsupported with the name of an algorithm or pre-tokenizer that gyrus does not know.
  explicit Tokenizer(const Gguf& gguf);

  int32_t size() const;  // tokens

  // `special`: texts of control tokens are those tokens, as in the output of a chat template; else they are text.
  // `begin`: with the tokens that begin and end a text, where the model wants them.
  std::vector<int32_t> encode(std::string_view text, bool special = false, bool begin = false) const;
  // The text of tokens; bytes that are no UTF-8 stay as they are. `special`: with the texts of control tokens. Throws
  // InvalidInput on an id that is none.
  std::string decode(std::span<const int32_t> tokens, bool special = false) const;
  // The bytes of one token inside a text; of a control token nothing, or its text.
  std::string piece(int32_t token, bool special = false) const;

  int32_t begin_token() const;  // −1 where there is none
  int32_t end_token() const;
  bool adds_begin() const;  // encode(…, true) does
  bool adds_end() const;
  bool ends_text(int32_t token) const;  // or a turn of a chat
  bool is_control(int32_t token) const;
  const std::string& raw(int32_t token) const;  // as the file has it
  // Whether the text of a first token begins with a space that the text has not.
  bool adds_space() const;
  bool adds_space_behind(int32_t token) const;  // the same for the token behind this one, a special one

 private:
  std::shared_ptr<const TokenizerParts> parts_;
};

// The text of tokens that come one after another: never a part of a character.
class TextDecoder {
 public:
  // `starts`: the first token is the first of a text, not of the rest of one.
  explicit TextDecoder(Tokenizer tokenizer, bool starts = false, bool special = false)
      : tokenizer_(std::move(tokenizer)), starts_(starts), special_(special) {}

  // What became whole with this token; may be empty.
  std::string push(int32_t token);
  // What is left: bytes that were the start of a character, as U+FFFD.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool starts_, special_;
  std::string waiting_;  // bytes
};

}  // namespace gyrus
