#include "text/template_lexer.h"

#include "core/error.h"
#include "text/unicode.h"

namespace gyrus::jinja {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {
    // As everywhere in Jinja, one end of line at the end of a template does not count.
    if (!text_.empty() && text_.back() == '\n') text_.remove_suffix(1);
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      read_text();
      if (at_ < text_.size()) read_tag();
    }
    out_.push_back({TokenType::End, "", line_});
    return std::move(out_);
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::InvalidModel, "chat template", "line ", line_, ": ", what);
  }
  bool is(std::string_view word) const { return text_.substr(at_, word.size()) == word; }
  void skip(size_t count) {
    for (size_t i = 0; i < count; ++i) line_ += text_[at_ + i] == '\n' ? 1 : 0;
    at_ += count;
  }

  // Up to the next tag, which may take spaces before it.
  void read_text() {
    size_t end = at_;
    while ((end = text_.find('{', end)) != std::string_view::npos) {
      const char next = end + 1 < text_.size() ? text_[end + 1] : ' ';
      if (next == '{' || next == '%' || next == '#') break;
      ++end;
    }
    if (end == std::string_view::npos) end = text_.size();
    std::string_view text = text_.substr(at_, end - at_);
    const char sign = end + 2 < text_.size() ? text_[end + 2] : ' ';
    if (end < text_.size() && sign == '-') {
      while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    } else if (end < text_.size() && text_[end + 1] != '{' && sign != '+') {
      const size_t start = text.rfind('\n') + 1;  // 0 where there is none
      if ((start > 0 || line_starts_) && text.find_first_not_of(" \t\r\v\f", start) == std::string_view::npos)
        text = text.substr(0, start);
    }
    if (!text.empty()) out_.push_back({TokenType::Text, std::string(text), line_});
    skip(end - at_);
  }

  void read_tag() {
    const char kind = text_[at_ + 1];
    skip(2);
    if (kind == '#') return read_comment();
    out_.push_back({kind == '%' ? TokenType::Tag : TokenType::Print, "", line_});
    if (is("-") || is("+")) skip(1);
    const char* const end = kind == '%' ? "%}" : "}}";
    int depth = 0;  // of brackets
    for (;;) {
      while (at_ < text_.size() && is_space(text_[at_])) skip(1);
      if (at_ >= text_.size()) bad("a tag does not end");
      const bool sign = is("-") || (kind == '%' && is("+"));
      if (depth == 0 && text_.substr(at_ + (sign ? 1 : 0), 2) == end) {
        out_.push_back({kind == '%' ? TokenType::TagEnd : TokenType::PrintEnd, "", line_});
        return end_tag(sign ? text_[at_] : ' ', kind == '%');
      }
      read_token(depth);
    }
  }

  // Behind the sign and the two characters of the end.
  void end_tag(char sign, bool takes_line) {
    skip(sign == ' ' ? 2 : 3);
    line_starts_ = false;
    if (sign == '-') {
      while (at_ < text_.size() && is_space(text_[at_])) {
        line_starts_ = text_[at_] == '\n';
        skip(1);
      }
    } else if (takes_line && sign != '+' && is("\n")) {
      skip(1);
      line_starts_ = true;
    }
  }

  void read_comment() {
    const size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) bad("a comment does not end");
    const char before = text_[end - 1];
    const bool sign = end > at_ && (before == '-' || before == '+');
    skip(end - at_ - (sign ? 1 : 0));
    end_tag(sign ? before : ' ', true);
  }

  void read_token(int& depth) {
    const char c = text_[at_];
    if (starts_name(c)) return read_while(TokenType::Name, [](char d) { return starts_name(d) || is_digit(d); });
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    for (const char* const two : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (is(two)) return add_operator(two);
    }
    if (std::string_view("([{").find(c) != std::string_view::npos) ++depth;
    if (std::string_view(")]}").find(c) != std::string_view::npos) --depth;
    if (std::string_view("+-*/%~<>=.,:|()[]{}").find(c) == std::string_view::npos)
      bad(cat("the character '", c < ' ' ? '?' : c, "' is not understood"));
    add_operator(std::string(1, c));
  }
  void add_operator(const std::string& text) {
    out_.push_back({TokenType::Operator, text, line_});
    skip(text.size());
  }
  template <class While>
  void read_while(TokenType type, const While& goes_on) {
    size_t end = at_;
    while (end < text_.size() && goes_on(text_[end])) ++end;
    out_.push_back({type, std::string(text_.substr(at_, end - at_)), line_});
    skip(end - at_);
  }
  void read_number() {
    read_while(TokenType::Integer, is_digit);
    if (!is(".") || at_ + 1 >= text_.size() || !is_digit(text_[at_ + 1])) return;
    const std::string whole = out_.back().text;
    out_.pop_back();
    skip(1);
    read_while(TokenType::Real, is_digit);
    out_.back().text = whole + "." + out_.back().text;
  }

  void read_string(char mark) {
    Token token{TokenType::String, "", line_};
    skip(1);
    while (at_ < text_.size() && text_[at_] != mark) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        skip(1);
        read_escape(token.text);
        continue;
      }
      token.text += text_[at_];
      skip(1);
    }
    if (at_ >= text_.size()) bad("a string does not end");
    skip(1);
    out_.push_back(std::move(token));
  }
  void read_escape(std::string& out) {
    const char c = text_[at_];
    skip(1);
    switch (c) {
      case 'n': out += '\n'; return;
      case 't': out += '\t'; return;
      case 'r': out += '\r'; return;
      case '\\':
      case '\'':
      case '"': out += c; return;
      case '\n': return;
      case 'u': return read_code(out);
      default: out += '\\'; out += c;  // as Python leaves what it does not know
    }
  }
  void read_code(std::string& out) {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const bool small = c >= 'a' && c <= 'f', big = c >= 'A' && c <= 'F';
      if (!is_digit(c) && !small && !big) bad("\\u wants four digits");
      code = code * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : small ? c - 'a' + 10 : c - 'A' + 10);
      skip(1);
    }
    unicode::append_utf8(out, code);
  }

  std::string_view text_;
  size_t at_ = 0;  // bytes
  int line_ = 1;
  bool line_starts_ = true;  // the last tag took the end of its line
  std::vector<Token> out_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) { return Lexer(text).run(); }

}  // namespace gyrus::jinja
