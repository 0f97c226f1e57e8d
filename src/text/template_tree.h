#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template_value.h"

// Chat templates as trees: what template_parser.cpp makes and template_render.cpp goes through.

namespace gyrus::jinja {

constexpr size_t kMostText = size_t{64} << 20;  // bytes of a text that a template makes

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind : uint8_t {
  Literal,    // value
  Name,       // name
  List,       // parts
  Map,        // parts: key, value, key, value, …
  Member,     // parts[0].name
  Item,       // parts[0][parts[1]]
  Slice,      // parts[0][parts[1]:parts[2]:parts[3]]; absent ones are null
  Call,       // parts[0](parts[1], …, named…)
  Filter,     // parts[0] | name(parts[1], …, named…)
  Test,       // parts[0] is name(parts[1], …)
  Unary,      // name parts[0]
  Binary,     // parts[0] name parts[1]
  Condition,  // parts[0] if parts[1] else parts[2], which may be null
};

struct Expression {
  ExpressionKind kind;
  int line = 0;
  int depth = 1;  // of the tree
  std::string name{};
  TemplateValue value{};
  std::vector<ExpressionPtr> parts{};
  std::vector<std::pair<std::string, ExpressionPtr>> named{};
};

enum class StatementKind : uint8_t { Text, Print, If, For, Set, SetBlock, Macro, Break, Continue, Block };

struct Statement {
  StatementKind kind;
  int line = 0;
  std::string text{};                   // Text; Macro: its name; Set: the namespace whose member is set
  std::vector<std::string> names{};     // For, Set, SetBlock: targets; Macro: parameters
  std::vector<ExpressionPtr> values{};  // Print, Set; If: conditions; For: what to go through, and the condition or
                                        // null; Macro: defaults, or null
  std::vector<std::vector<Statement>> bodies{};  // If: one for each condition and perhaps one more; For: and its else
};

using Body = std::vector<Statement>;

// Throws Unsupported with the line and the name of what gyrus does not know, InvalidModel where the syntax is wrong.
Body parse(std::string_view text);

// Names of what there is, so that the parser can refuse others.
bool knows_filter(std::string_view name);
bool knows_test(std::string_view name);
bool knows_method(std::string_view name);
bool knows_function(std::string_view name);

// Named arguments are looked up in `named`.
struct Arguments {
  std::vector<TemplateValue> values;
  TemplateValue::Map named;
  const TemplateValue* get(size_t index, std::string_view name) const;
};

[[noreturn]] void fail_at(int line, const std::string& message);  // InvalidInput
TemplateValue apply_filter(const std::string& name, const TemplateValue& to, const Arguments& arguments, int line);
bool apply_test(const std::string& name, const TemplateValue& to, const Arguments& arguments, int line);
TemplateValue call_method(const std::string& name, const TemplateValue& of, const Arguments& arguments, int line);
TemplateValue call_function(const std::string& name, const Arguments& arguments, int line);
TemplateValue binary(const std::string& symbol, const TemplateValue& left, const TemplateValue& right, int line);
TemplateValue member(const TemplateValue& of, const std::string& name, int line);
// What a for loop goes through: the elements of a list, the keys of a map, the characters of a text.
TemplateValue::List elements_of(const TemplateValue& value, int line);

}  // namespace gyrus::jinja
