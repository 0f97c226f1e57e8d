#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What tokenizers need of Unicode.

namespace gyrus::unicode {

// The general categories, in the order of the table.
enum class Category : uint8_t {
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co,
  Cn,
};

Category category(uint32_t code);
bool is_letter(uint32_t code);
bool is_number(uint32_t code);
bool is_mark(uint32_t code);
bool is_punctuation(uint32_t code);
bool is_symbol(uint32_t code);
bool is_space(uint32_t code);  // White_Space

uint32_t lower(uint32_t code);                             // itself where it has none of one code point
void decompose(uint32_t code, std::vector<uint32_t>& to);  // appends the full canonical decomposition

// A text in the form NFC, in which what can be one code point is one. Bytes that are no UTF-8 stay.
std::string composed(std::string_view text);

// Bytes of the UTF-8 character at the start of a text that is not empty, and its code point; a byte that starts none is
// one of its own, U+FFFD.
struct Character {
  uint32_t code = 0;
  uint32_t bytes = 1;
};
Character first_character(std::string_view text);
void append_utf8(std::string& text, uint32_t code);

// Bytes at the end of a text that begin a character, but do not end it: 0 … 3.
size_t unfinished_bytes(std::string_view text);

}  // namespace gyrus::unicode
