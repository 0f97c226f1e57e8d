#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gyrus::jinja {

enum class TokenType : uint8_t {
  Text,      // outside of tags
  Tag,       // {% begins
  TagEnd,    // %}
  Print,     // {{ begins
  PrintEnd,  // }}
  Name,
  String,
  Integer,
  Real,
  Operator,
  End,
};

struct Token {
  TokenType type = TokenType::End;
  std::string text{};
  int line = 1;
};

// Comments are gone, and so are the spaces that tags take: as with trim_blocks and lstrip_blocks, and by the signs in
// tags. Throws InvalidModel.
std::vector<Token> tokens_of(std::string_view text);

}  // namespace gyrus::jinja
