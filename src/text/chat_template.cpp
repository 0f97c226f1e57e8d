#include "text/chat_template.h"

#include <map>

#include "core/error.h"
#include "text/template_tree.h"

namespace gyrus {

struct TemplateTree {
  jinja::Body body;
};

namespace jinja {
namespace {

constexpr size_t kMostSteps = 2'000'000;  // expressions and statements
constexpr int kDeepestCall = 50;

enum class Flow : uint8_t { On, Break, Continue };

class Renderer {
 public:
  explicit Renderer(const TemplateValue::Map& variables) {
    frames_.emplace_back(variables.begin(), variables.end());
    frames_.emplace_back();
  }

  std::string run(const Body& body) {
    std::string out;
    render(body, out);
    return out;
  }

 private:
  void step(int line) {
    if (++steps_ > kMostSteps) fail_at(line, "the template does not come to an end");
  }
  void write(std::string& out, std::string_view text, int line) {
    if (text.size() > kMostText - std::min(kMostText, out.size())) fail_at(line, "the text is too long");
    out += text;
  }

  Flow render(const Body& body, std::string& out) {
    for (const Statement& statement : body) {
      step(statement.line);
      const Flow flow = render(statement, out);
      if (flow != Flow::On) return flow;
    }
    return Flow::On;
  }

  Flow render(const Statement& statement, std::string& out) {
    switch (statement.kind) {
      case StatementKind::Text: write(out, statement.text, statement.line); break;
      case StatementKind::Print: write(out, value(*statement.values[0]).printed(), statement.line); break;
      case StatementKind::Block: return render(statement.bodies[0], out);
      case StatementKind::If: return render_if(statement, out);
      case StatementKind::For: render_for(statement, out); break;
      case StatementKind::Set: assign(statement, value(*statement.values[0])); break;
      case StatementKind::SetBlock: {
        std::string text;
        const Flow flow = render(statement.bodies[0], text);
        if (flow != Flow::On) return flow;
        frames_.back()[statement.names[0]] = TemplateValue::text(std::move(text));
        break;
      }
      case StatementKind::Macro: macros_[statement.text] = &statement; break;
      case StatementKind::Break: return Flow::Break;
      case StatementKind::Continue: return Flow::Continue;
    }
    return Flow::On;
  }

  Flow render_if(const Statement& statement, std::string& out) {
    for (size_t i = 0; i < statement.bodies.size(); ++i) {
      if (i >= statement.values.size() || value(*statement.values[i]).truth()) return render(statement.bodies[i], out);
    }
    return Flow::On;
  }

  void assign(const std::vector<std::string>& names, const TemplateValue& what, int line) {
    if (names.size() == 1) {
      frames_.back()[names[0]] = what;
      return;
    }
    const TemplateValue::List parts = elements_of(what, line);
    if (parts.size() != names.size()) fail_at(line, cat(names.size(), " names for ", parts.size(), " values"));
    for (size_t i = 0; i < names.size(); ++i) frames_.back()[names[i]] = parts[i];
  }
  void assign(const Statement& statement, const TemplateValue& what) {
    if (statement.text.empty()) return assign(statement.names, what, statement.line);
    TemplateValue space = variable(statement.text);
    if (!space.is_namespace()) fail_at(statement.line, statement.text + " is no namespace");
    space.put(statement.names[0], what);
  }

  void render_for(const Statement& statement, std::string& out) {
    TemplateValue::List all = elements_of(value(*statement.values[0]), statement.line);
    if (statement.values[1]) {
      TemplateValue::List kept;
      for (TemplateValue& element : all) {
        frames_.emplace_back();
        assign(statement.names, element, statement.line);
        if (value(*statement.values[1]).truth()) kept.push_back(element);
        frames_.pop_back();
      }
      all = std::move(kept);
    }
    if (all.empty() && statement.bodies.size() > 1) {
      render(statement.bodies[1], out);
      return;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      frames_.emplace_back();
      frames_.back()["loop"] = loop(all, i);
      assign(statement.names, all[i], statement.line);
      const Flow flow = render(statement.bodies[0], out);
      frames_.pop_back();
      if (flow == Flow::Break) break;
    }
  }
  static TemplateValue loop(const TemplateValue::List& all, size_t i) {
    const auto number = [](size_t value) { return TemplateValue::integer(static_cast<int64_t>(value)); };
    TemplateValue::Map out = {{"index", number(i + 1)},
                              {"index0", number(i)},
                              {"revindex", number(all.size() - i)},
                              {"revindex0", number(all.size() - i - 1)},
                              {"first", TemplateValue::boolean(i == 0)},
                              {"last", TemplateValue::boolean(i + 1 == all.size())},
                              {"length", number(all.size())}};
    if (i > 0) out.emplace_back("previtem", all[i - 1]);
    if (i + 1 < all.size()) out.emplace_back("nextitem", all[i + 1]);
    return TemplateValue::map(std::move(out));
  }

  TemplateValue variable(const std::string& name) const {
    for (size_t i = frames_.size(); i-- > 0;) {
      const auto found = frames_[i].find(name);
      if (found != frames_[i].end()) return found->second;
      // A macro sees its own names and those of the whole template.
      if (i == hidden_.back().second && hidden_.back().first < i) i = hidden_.back().first + 1;
    }
    return TemplateValue::undefined(name);
  }

  TemplateValue value(const Expression& expression) {
    step(expression.line);
    switch (expression.kind) {
      case ExpressionKind::Literal: return expression.value;
      case ExpressionKind::Name: return variable(expression.name);
      case ExpressionKind::List: {
        TemplateValue::List out;
        for (const ExpressionPtr& part : expression.parts) out.push_back(value(*part));
        return TemplateValue::list(std::move(out));
      }
      case ExpressionKind::Map: return map(expression);
      case ExpressionKind::Member: return member(value(*expression.parts[0]), expression.name, expression.line);
      case ExpressionKind::Item: return item(expression);
      case ExpressionKind::Slice: return slice(expression);
      case ExpressionKind::Call: return call(expression);
      case ExpressionKind::Filter: {
        const TemplateValue to = value(*expression.parts[0]);
        return apply_filter(expression.name, to, arguments(expression), expression.line);
      }
      case ExpressionKind::Test: {
        const TemplateValue to = value(*expression.parts[0]);
        return TemplateValue::boolean(apply_test(expression.name, to, arguments(expression), expression.line));
      }
      case ExpressionKind::Unary: return unary(expression);
      case ExpressionKind::Binary: return joined(expression);
      case ExpressionKind::Condition:
        if (value(*expression.parts[1]).truth()) return value(*expression.parts[0]);
        return expression.parts[2] ? value(*expression.parts[2]) : TemplateValue();
    }
    return {};
  }

  // From the second part on: the first is what it is applied to.
  Arguments arguments(const Expression& expression) {
    Arguments out;
    for (size_t i = 1; i < expression.parts.size(); ++i) out.values.push_back(value(*expression.parts[i]));
    for (const auto& [name, part] : expression.named) out.named.emplace_back(name, value(*part));
    return out;
  }

  TemplateValue map(const Expression& expression) {
    TemplateValue out = TemplateValue::map({});
    for (size_t i = 0; i < expression.parts.size(); i += 2) {
      const TemplateValue key = value(*expression.parts[i]);
      if (!key.is(TemplateValue::Kind::Text)) fail_at(expression.line, "a key that is no text");
      out.put(key.as_text(), value(*expression.parts[i + 1]));
    }
    return out;
  }

  TemplateValue item(const Expression& expression) {
    const TemplateValue of = value(*expression.parts[0]);
    const TemplateValue key = value(*expression.parts[1]);
    if (key.is(TemplateValue::Kind::Text)) return member(of, key.as_text(), expression.line);
    if (of.is(TemplateValue::Kind::Undefined)) fail_at(expression.line, in_words(of) + " is undefined");
    if (!key.is_number() || key.is(TemplateValue::Kind::Real) || of.is(TemplateValue::Kind::Map)) return {};
    const TemplateValue::List all = elements_of(of, expression.line);
    int64_t index = key.as_integer();
    if (index < 0) index += static_cast<int64_t>(all.size());
    if (index < 0 || index >= static_cast<int64_t>(all.size())) return TemplateValue::undefined("an element");
    return all[static_cast<size_t>(index)];
  }
  static std::string in_words(const TemplateValue& undefined) {
    return undefined.as_text().empty() ? "a value" : undefined.as_text();
  }

  TemplateValue slice(const Expression& expression) {
    const TemplateValue of = value(*expression.parts[0]);
    const bool text = of.is(TemplateValue::Kind::Text);
    const TemplateValue::List all = elements_of(of, expression.line);
    const auto count = static_cast<int64_t>(all.size());
    const auto bound = [&](size_t part, int64_t fallback) {
      if (part >= expression.parts.size() || !expression.parts[part]) return fallback;
      const TemplateValue given = value(*expression.parts[part]);
      if (given.is(TemplateValue::Kind::None)) return fallback;
      if (!given.is(TemplateValue::Kind::Integer)) fail_at(expression.line, "a bound of a slice is no integer");
      return given.as_integer();
    };
    const int64_t stride = bound(3, 1);
    if (stride == 0) fail_at(expression.line, "a slice in steps of 0");
    const auto placed = [&](int64_t at) {
      if (at < 0) at = at < -count ? -1 : at + count;
      return stride > 0 ? std::min(std::max<int64_t>(at, 0), count) : std::min(at, count - 1);
    };
    constexpr int64_t kAbsent = INT64_MIN;
    const int64_t given_first = bound(1, kAbsent), given_last = bound(2, kAbsent);
    const int64_t first = given_first == kAbsent ? (stride > 0 ? 0 : count - 1) : placed(given_first);
    const int64_t last = given_last == kAbsent ? (stride > 0 ? count : -1) : placed(given_last);
    TemplateValue::List out;
    for (int64_t i = first; stride > 0 ? i < last : i > last; i += stride) {
      out.push_back(all[static_cast<size_t>(i)]);
      if (stride > count || stride < -count) break;
    }
    if (!text) return TemplateValue::list(std::move(out));
    std::string joined_text;
    for (const TemplateValue& part : out) joined_text += part.as_text();
    return TemplateValue::text(std::move(joined_text));
  }

  TemplateValue call(const Expression& expression) {
    const Expression& callee = *expression.parts[0];
    if (callee.kind == ExpressionKind::Member) {
      const TemplateValue of = value(*callee.parts[0]);
      return call_method(callee.name, of, arguments(expression), expression.line);
    }
    const auto macro = macros_.find(callee.name);
    if (macro != macros_.end()) return call_macro(*macro->second, arguments(expression), expression.line);
    return call_function(callee.name, arguments(expression), expression.line);
  }

  TemplateValue call_macro(const Statement& macro, const Arguments& given, int line) {
    if (static_cast<int>(hidden_.size()) > kDeepestCall) fail_at(line, "macros call each other too deep");
    std::map<std::string, TemplateValue> frame;
    for (size_t i = 0; i < macro.names.size(); ++i) {
      if (const TemplateValue* const found = given.get(i, macro.names[i]))
        frame[macro.names[i]] = *found;
      else
        frame[macro.names[i]] = macro.values[i] ? value(*macro.values[i]) : TemplateValue::undefined(macro.names[i]);
    }
    hidden_.emplace_back(1, frames_.size());
    frames_.push_back(std::move(frame));
    std::string out;
    render(macro.bodies[0], out);
    frames_.pop_back();
    hidden_.pop_back();
    return TemplateValue::text(std::move(out));
  }

  TemplateValue unary(const Expression& expression) {
    const TemplateValue of = value(*expression.parts[0]);
    if (expression.name == "not") return TemplateValue::boolean(!of.truth());
    if (of.is(TemplateValue::Kind::Real)) return TemplateValue::real(-of.as_real());
    if (!of.is_number()) fail_at(expression.line, "a minus before what is no number");
    return binary("-", TemplateValue::integer(0), of, expression.line);
  }

  TemplateValue joined(const Expression& expression) {
    TemplateValue left = value(*expression.parts[0]);
    if (expression.name == "and") return left.truth() ? value(*expression.parts[1]) : left;
    if (expression.name == "or") return left.truth() ? left : value(*expression.parts[1]);
    TemplateValue out = binary(expression.name, left, value(*expression.parts[1]), expression.line);
    if (out.is(TemplateValue::Kind::Text) && out.as_text().size() > kMostText)
      fail_at(expression.line, "the text is too long");
    return out;
  }

  std::vector<std::map<std::string, TemplateValue>> frames_;  // given ones, those of the template, of loops, of macros
  std::vector<std::pair<size_t, size_t>> hidden_ = {{0, 0}};  // of each macro: frames between these are not seen
  std::map<std::string, const Statement*> macros_;
  size_t steps_ = 0;
};

}  // namespace
}  // namespace jinja

ChatTemplate::ChatTemplate(const std::string& text)
    : tree_(std::make_shared<const TemplateTree>(TemplateTree{jinja::parse(text)})) {}

std::string ChatTemplate::render(const TemplateValue& variables) const {
  if (!variables.is(TemplateValue::Kind::Map)) fail(ErrorCode::InvalidInput, "chat template", "no map of variables");
  return jinja::Renderer(variables.entries()).run(tree_->body);
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages, const std::string& begin_text,
                                 const std::string& end_text) const {
  return render(TemplateValue::map({{"messages", to_template_value(messages)},
                                    {"add_generation_prompt", TemplateValue::boolean(true)},
                                    {"bos_token", TemplateValue::text(begin_text)},
                                    {"eos_token", TemplateValue::text(end_text)}}));
}

TemplateValue to_template_value(const std::vector<ChatMessage>& messages) {
  TemplateValue::List out;
  for (const ChatMessage& message : messages) {
    out.push_back(TemplateValue::map(
        {{"role", TemplateValue::text(message.role)}, {"content", TemplateValue::text(message.content)}}));
  }
  return TemplateValue::list(std::move(out));
}

}  // namespace gyrus
