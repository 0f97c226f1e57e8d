#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "import/bytes.h"
#include "text/template_lexer.h"
#include "text/template_tree.h"

// The grammar is Jinja's, without what chat templates have no use for. Everything that has a name (filters, tests,
// methods, functions, tags) is looked up here: a template that cannot be rendered is refused before it is used.

namespace gyrus::jinja {
namespace {

constexpr int kDeepest = 100;
constexpr int kDeepestTree = 500;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Body run() {
    Body out = body({});
    if (token().type != TokenType::End) bad();
    return out;
  }

 private:
  const Token& token(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  int line() const { return token().line; }
  template <class... Args>
  [[noreturn]] void refuse(const Args&... message) const {
    fail(ErrorCode::Unsupported, "chat template", "line ", line(), ": ", message...);
  }
  [[noreturn]] void bad() const {
    fail(ErrorCode::InvalidModel, "chat template", "line ", line(), ": not understood at ", in_quotes(token().text));
  }
  bool is(TokenType type, std::string_view text) const { return token().type == type && token().text == text; }
  bool is_operator(std::string_view text) const { return is(TokenType::Operator, text); }
  bool is_name(std::string_view text) const { return is(TokenType::Name, text); }
  bool take(TokenType type, std::string_view text) {
    if (!is(type, text)) return false;
    ++at_;
    return true;
  }
  bool take_operator(std::string_view text) { return take(TokenType::Operator, text); }
  bool take_name(std::string_view text) { return take(TokenType::Name, text); }
  void want(TokenType type) {
    if (token().type != type) bad();
    ++at_;
  }
  void want_operator(std::string_view text) {
    if (!take_operator(text)) bad();
  }
  std::string name() {
    if (token().type != TokenType::Name) bad();
    return tokens_[at_++].text;
  }

  // Counts how deep expressions and tags are nested.
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepest) parser_.refuse("nested deeper than ", kDeepest);
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  // Until one of these tags, whose name is left to be read.
  Body body(const std::vector<std::string_view>& ends) {
    const Deeper deeper(*this);
    Body out;
    for (;;) {
      const Token& next = token();
      if (next.type == TokenType::Text) {
        out.push_back({StatementKind::Text, next.line, next.text});
        ++at_;
      } else if (next.type == TokenType::Print) {
        Statement print{StatementKind::Print, next.line};
        ++at_;
        print.values.push_back(expression());
        want(TokenType::PrintEnd);
        out.push_back(std::move(print));
      } else if (next.type == TokenType::Tag) {
        for (const std::string_view end : ends) {
          if (token(1).type == TokenType::Name && token(1).text == end) return out;
        }
        ++at_;
        out.push_back(tag());
      } else {
        if (!ends.empty()) fail(ErrorCode::InvalidModel, "chat template", "there is no ", std::string(ends.back()));
        return out;
      }
    }
  }
  // The tag that ended a body.
  std::string end_name() {
    want(TokenType::Tag);
    return name();
  }
  void end_tag() { want(TokenType::TagEnd); }

  Statement tag() {
    const int at = line();
    const std::string word = name();
    if (word == "if") return if_tag(at);
    if (word == "for") return for_tag(at);
    if (word == "set") return set_tag(at);
    if (word == "macro") return macro_tag(at);
    if (word == "break" || word == "continue") {
      if (loops_ == 0) refuse(word, " outside of a loop");
      end_tag();
      return {word == "break" ? StatementKind::Break : StatementKind::Continue, at};
    }
    if (word == "generation") {
      Statement out{StatementKind::Block, at};
      end_tag();
      out.bodies.push_back(body({"endgeneration"}));
      end_name();
      end_tag();
      return out;
    }
    refuse("the tag '", word, "' is not supported");
  }

  Statement if_tag(int at) {
    Statement out{StatementKind::If, at};
    for (;;) {
      out.values.push_back(expression());
      end_tag();
      out.bodies.push_back(body({"elif", "else", "endif"}));
      const std::string end = end_name();
      if (end == "elif") continue;
      end_tag();
      if (end == "endif") return out;
      out.bodies.push_back(body({"endif"}));
      end_name();
      end_tag();
      return out;
    }
  }

  std::vector<std::string> targets() {
    std::vector<std::string> out = {name()};
    while (take_operator(",")) out.push_back(name());
    return out;
  }

  Statement for_tag(int at) {
    Statement out{StatementKind::For, at};
    const bool bracket = take_operator("(");
    out.names = targets();
    if (bracket) want_operator(")");
    if (!take_name("in")) bad();
    out.values.push_back(either(/*conditional=*/false));
    out.values.push_back(take_name("if") ? expression() : nullptr);
    if (is_name("recursive")) refuse("loops that call themselves are not supported");
    end_tag();
    ++loops_;
    out.bodies.push_back(body({"else", "endfor"}));
    --loops_;
    if (end_name() == "else") {
      end_tag();
      out.bodies.push_back(body({"endfor"}));
      end_name();
    }
    end_tag();
    return out;
  }

  Statement set_tag(int at) {
    Statement out{StatementKind::Set, at};
    out.names = targets();
    if (out.names.size() == 1 && take_operator(".")) {
      out.text = out.names[0];
      out.names[0] = name();
    }
    if (take_operator("=")) {
      out.values.push_back(tuple());
      end_tag();
      return out;
    }
    if (out.names.size() != 1 || !out.text.empty() || token().type != TokenType::TagEnd) bad();
    out.kind = StatementKind::SetBlock;
    end_tag();
    out.bodies.push_back(body({"endset"}));
    end_name();
    end_tag();
    return out;
  }

  Statement macro_tag(int at) {
    Statement out{StatementKind::Macro, at, name()};
    macros_.push_back(out.text);
    want_operator("(");
    while (!take_operator(")")) {
      out.names.push_back(name());
      out.values.push_back(take_operator("=") ? expression() : nullptr);
      if (!is_operator(")")) want_operator(",");
    }
    end_tag();
    const int loops = std::exchange(loops_, 0);
    out.bodies.push_back(body({"endmacro"}));
    loops_ = loops;
    end_name();
    end_tag();
    return out;
  }

  ExpressionPtr make(ExpressionKind kind, std::string own = {}) const {
    auto out = std::make_unique<Expression>();
    out->kind = kind;
    out->line = line();
    out->name = std::move(own);
    return out;
  }
  // How deep a tree is decides how deep its rendering goes: long chains of operators count too.
  void put(Expression& to, ExpressionPtr part) const {
    if (part) to.depth = std::max(to.depth, part->depth + 1);
    if (to.depth > kDeepestTree) refuse("an expression of more than ", kDeepestTree, " parts in a row");
    to.parts.push_back(std::move(part));
  }
  ExpressionPtr literal(TemplateValue value) const {
    ExpressionPtr out = make(ExpressionKind::Literal);
    out->value = std::move(value);
    return out;
  }
  ExpressionPtr join(std::string op, ExpressionPtr left, ExpressionPtr right) const {
    ExpressionPtr out = make(ExpressionKind::Binary, std::move(op));
    put(*out, std::move(left));
    put(*out, std::move(right));
    return out;
  }

  ExpressionPtr tuple() {
    ExpressionPtr first = expression();
    if (!is_operator(",")) return first;
    ExpressionPtr out = make(ExpressionKind::List);
    put(*out, std::move(first));
    while (take_operator(",")) {
      if (token().type == TokenType::TagEnd || is_operator(")")) break;
      put(*out, expression());
    }
    return out;
  }

  ExpressionPtr expression() { return either(true); }

  ExpressionPtr either(bool conditional) {
    const Deeper deeper(*this);
    ExpressionPtr out = or_expression();
    while (conditional && take_name("if")) {
      ExpressionPtr whole = make(ExpressionKind::Condition);
      put(*whole, std::move(out));
      put(*whole, or_expression());
      put(*whole, take_name("else") ? expression() : nullptr);
      out = std::move(whole);
    }
    return out;
  }
  ExpressionPtr or_expression() {
    ExpressionPtr out = and_expression();
    while (take_name("or")) out = join("or", std::move(out), and_expression());
    return out;
  }
  ExpressionPtr and_expression() {
    ExpressionPtr out = not_expression();
    while (take_name("and")) out = join("and", std::move(out), not_expression());
    return out;
  }
  ExpressionPtr not_expression() {
    if (!take_name("not")) return comparison();
    const Deeper deeper(*this);
    ExpressionPtr out = make(ExpressionKind::Unary, "not");
    put(*out, not_expression());
    return out;
  }
  ExpressionPtr comparison() {
    ExpressionPtr out = sum();
    for (int compared = 0;; ++compared) {
      std::string op;
      for (const char* const sign : {"==", "!=", "<=", ">=", "<", ">"}) {
        if (op.empty() && take_operator(sign)) op = sign;
      }
      if (op.empty() && take_name("in")) op = "in";
      if (op.empty() && is_name("not") && token(1).type == TokenType::Name && token(1).text == "in") {
        at_ += 2;
        op = "not in";
      }
      if (op.empty()) return out;
      if (compared > 0) refuse("comparisons in a row are not supported");
      out = join(op, std::move(out), sum());
    }
  }
  ExpressionPtr sum() {
    ExpressionPtr out = concatenation();
    for (;;) {
      if (take_operator("+"))
        out = join("+", std::move(out), concatenation());
      else if (take_operator("-"))
        out = join("-", std::move(out), concatenation());
      else
        return out;
    }
  }
  ExpressionPtr concatenation() {
    ExpressionPtr out = product();
    while (take_operator("~")) out = join("~", std::move(out), product());
    return out;
  }
  ExpressionPtr product() {
    ExpressionPtr out = unary();
    for (;;) {
      std::string op;
      for (const char* const sign : {"*", "//", "/", "%"}) {
        if (op.empty() && take_operator(sign)) op = sign;
      }
      if (is_operator("**")) refuse("powers are not supported");
      if (op.empty()) return out;
      out = join(op, std::move(out), unary());
    }
  }
  ExpressionPtr unary() {
    const Deeper deeper(*this);
    if (take_operator("-")) {
      ExpressionPtr out = make(ExpressionKind::Unary, "-");
      put(*out, unary());
      return out;
    }
    take_operator("+");
    return filtered(postfix(primary()));
  }

  ExpressionPtr primary() {
    const Token& next = token();
    switch (next.type) {
      case TokenType::String: {
        std::string text;
        while (token().type == TokenType::String) text += tokens_[at_++].text;
        return literal(TemplateValue::text(std::move(text)));
      }
      case TokenType::Integer: ++at_; return literal(TemplateValue::integer(std::atoll(next.text.c_str())));
      case TokenType::Real: ++at_; return literal(TemplateValue::real(std::atof(next.text.c_str())));
      case TokenType::Name: return named_value();
      default: break;
    }
    if (take_operator("(")) {
      ExpressionPtr out = is_operator(")") ? make(ExpressionKind::List) : tuple();
      want_operator(")");
      return out;
    }
    if (take_operator("[")) {
      ExpressionPtr out = make(ExpressionKind::List);
      while (!take_operator("]")) {
        put(*out, expression());
        if (!is_operator("]")) want_operator(",");
      }
      return out;
    }
    if (take_operator("{")) {
      ExpressionPtr out = make(ExpressionKind::Map);
      while (!take_operator("}")) {
        put(*out, expression());
        want_operator(":");
        put(*out, expression());
        if (!is_operator("}")) want_operator(",");
      }
      return out;
    }
    bad();
  }
  ExpressionPtr named_value() {
    const std::string word = name();
    if (word == "true" || word == "True") return literal(TemplateValue::boolean(true));
    if (word == "false" || word == "False") return literal(TemplateValue::boolean(false));
    if (word == "none" || word == "None") return literal(TemplateValue::none());
    return make(ExpressionKind::Name, word);
  }

  ExpressionPtr postfix(ExpressionPtr out) {
    for (;;) {
      if (take_operator(".")) {
        ExpressionPtr whole = make(ExpressionKind::Member, name());
        put(*whole, std::move(out));
        out = std::move(whole);
      } else if (take_operator("[")) {
        out = item(std::move(out));
      } else if (is_operator("(")) {
        out = call(std::move(out));
      } else {
        return out;
      }
    }
  }
  ExpressionPtr item(ExpressionPtr of) {
    ExpressionPtr out = make(ExpressionKind::Item);
    put(*out, std::move(of));
    put(*out, is_operator(":") ? nullptr : expression());
    if (is_operator(":")) {
      out->kind = ExpressionKind::Slice;
      while (out->parts.size() < 4) {
        const bool there = take_operator(":") && !is_operator(":") && !is_operator("]");
        put(*out, there ? expression() : nullptr);
      }
    }
    want_operator("]");
    return out;
  }
  ExpressionPtr call(ExpressionPtr callee) {
    ExpressionPtr out = make(ExpressionKind::Call);
    if (callee->kind == ExpressionKind::Name) {
      const bool macro = std::find(macros_.begin(), macros_.end(), callee->name) != macros_.end();
      if (!macro && !knows_function(callee->name)) refuse("the function '", callee->name, "' is not supported");
    } else if (callee->kind != ExpressionKind::Member) {
      refuse("only functions and methods can be called");
    } else if (!knows_method(callee->name)) {
      refuse("the method '", callee->name, "' is not supported");
    }
    put(*out, std::move(callee));
    arguments(*out);
    return out;
  }
  void arguments(Expression& to) {
    want_operator("(");
    while (!take_operator(")")) {
      if (token().type == TokenType::Name && token(1).type == TokenType::Operator && token(1).text == "=") {
        const std::string word = name();
        want_operator("=");
        put(to, expression());
        to.named.emplace_back(word, std::move(to.parts.back()));
        to.parts.pop_back();
      } else {
        put(to, expression());
      }
      if (!is_operator(")")) want_operator(",");
    }
  }

  // Filters and tests bind closer than anything but members and calls.
  ExpressionPtr filtered(ExpressionPtr out) {
    for (;;) {
      if (take_operator("|")) {
        ExpressionPtr whole = make(ExpressionKind::Filter, name());
        if (!knows_filter(whole->name)) refuse("the filter '", whole->name, "' is not supported");
        put(*whole, std::move(out));
        if (is_operator("(")) arguments(*whole);
        out = postfix(std::move(whole));
      } else if (take_name("is")) {
        out = test(std::move(out));
      } else {
        return out;
      }
    }
  }
  ExpressionPtr test(ExpressionPtr of) {
    const bool negated = take_name("not");
    ExpressionPtr out = make(ExpressionKind::Test, name());
    if (!knows_test(out->name)) refuse("the test '", out->name, "' is not supported");
    put(*out, std::move(of));
    if (is_operator("(")) {
      arguments(*out);
    } else if (token().type == TokenType::String || token().type == TokenType::Integer || is_operator("[") ||
               (token().type == TokenType::Name && !is_name("and") && !is_name("or") && !is_name("else") &&
                !is_name("if") && !is_name("is") && !is_name("in") && !is_name("not"))) {
      put(*out, postfix(primary()));
    }
    if (!negated) return out;
    ExpressionPtr whole = make(ExpressionKind::Unary, "not");
    put(*whole, std::move(out));
    return whole;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
  std::vector<std::string> macros_;
};

}  // namespace

Body parse(std::string_view text) { return Parser(tokens_of(text)).run(); }

}  // namespace gyrus::jinja
