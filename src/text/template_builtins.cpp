#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>

#include "core/error.h"
#include "text/template_tree.h"
#include "text/unicode.h"

// The filters, tests, methods and functions of chat templates, each a row of a table.

namespace gyrus::jinja {
namespace {

using Value = TemplateValue;
using Kind = Value::Kind;

constexpr std::string_view kSpaces = " \t\n\r\v\f";
constexpr int64_t kLongestRange = 100000;

template <class Result>
struct Named {
  const char* name;
  Result (*apply)(const Value& to, const Arguments& arguments, int line);
};

[[noreturn]] void wrong(int line, const char* what) { fail_at(line, cat("wrong arguments of ", what)); }

const Value& argument(const Arguments& arguments, size_t index, const char* name, int line) {
  const Value* const found = arguments.get(index, name);
  if (!found) wrong(line, name);
  return *found;
}
std::string text_argument(const Arguments& arguments, size_t index, const char* name, int line) {
  const Value& found = argument(arguments, index, name, line);
  if (!found.is(Kind::Text)) wrong(line, name);
  return found.as_text();
}
// Of what must be text; printed as Jinja's filters do it.
std::string text_of_value(const Value& value) { return value.printed(); }

std::string trimmed(std::string text, std::string_view what, bool left, bool right) {
  if (right) text.erase(text.find_last_not_of(what) + 1);
  if (left) text.erase(0, std::min(text.find_first_not_of(what), text.size()));
  return text;
}

std::string mapped(std::string_view text, const std::function<uint32_t(uint32_t, bool)>& to) {
  std::string out;
  bool starts = true;  // a word
  while (!text.empty()) {
    const unicode::Character character = unicode::first_character(text);
    unicode::append_utf8(out, to(character.code, starts));
    starts = !unicode::is_letter(character.code);
    text.remove_prefix(character.bytes);
  }
  return out;
}
// Of ASCII; templates use it for their own words.
uint32_t upper(uint32_t code) { return code >= 'a' && code <= 'z' ? code - 32 : code; }

void check_length(const std::string& text, int line) {
  if (text.size() > kMostText) fail_at(line, "the text is too long");
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to, int line) {
  if (from.empty()) return text;
  std::string out;
  size_t at = 0;
  for (size_t found = 0; (found = text.find(from, at)) != std::string::npos; at = found + from.size()) {
    out.append(text, at, found - at).append(to);
    check_length(out, line);
  }
  return out.append(text, at);
}

Value::List split(const std::string& text, const Value* by, int64_t most) {
  Value::List out;
  const auto full = [&] { return most >= 0 && static_cast<int64_t>(out.size()) >= most; };
  if (by && by->is(Kind::Text) && !by->as_text().empty()) {
    const std::string& mark = by->as_text();
    size_t at = 0;
    for (size_t found = 0; !full() && (found = text.find(mark, at)) != std::string::npos; at = found + mark.size())
      out.push_back(Value::text(text.substr(at, found - at)));
    out.push_back(Value::text(text.substr(at)));
    return out;
  }
  size_t at = text.find_first_not_of(kSpaces);
  while (at != std::string::npos) {
    if (full()) {
      out.push_back(Value::text(trimmed(text.substr(at), kSpaces, false, true)));
      break;
    }
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    out.push_back(Value::text(text.substr(at, end - at)));
    at = text.find_first_not_of(kSpaces, end);
  }
  return out;
}

Value pairs_of(const Value& map, int line) {
  if (map.is(Kind::Undefined)) return Value::list({});
  if (!map.is(Kind::Map)) fail_at(line, "items of what is no map");
  Value::List out;
  for (const auto& [key, value] : map.entries()) out.push_back(Value::list({Value::text(key), value}));
  return Value::list(std::move(out));
}

// attribute names may be paths: "function.name".
Value member_path(Value of, const std::string& path, int line) {
  size_t at = 0;
  for (;;) {
    const size_t dot = path.find('.', at);
    of = member(of, path.substr(at, dot - at), line);
    if (dot == std::string::npos) return of;
    at = dot + 1;
  }
}

// select, reject, selectattr, rejectattr.
Value selected(const Value& from, const Arguments& arguments, int line, bool attribute, bool keep) {
  const size_t first = attribute ? 1 : 0;
  const std::string path = attribute ? text_argument(arguments, 0, "attribute", line) : std::string();
  const bool tested = arguments.values.size() > first;
  const std::string test = tested ? text_argument(arguments, first, "test", line) : std::string();
  if (tested && !knows_test(test))
    fail(ErrorCode::Unsupported, "chat template", "line ", line, ": the test '", test, "' is not supported");
  Arguments rest;
  for (size_t i = first + 1; i < arguments.values.size(); ++i) rest.values.push_back(arguments.values[i]);
  Value::List out;
  for (const Value& element : elements_of(from, line)) {
    const Value what = attribute ? member_path(element, path, line) : element;
    if ((tested ? apply_test(test, what, rest, line) : what.truth()) == keep) out.push_back(element);
  }
  return Value::list(std::move(out));
}

Value map_filter(const Value& from, const Arguments& arguments, int line) {
  Value::List out;
  const Value* const attribute = arguments.get(std::numeric_limits<size_t>::max(), "attribute");
  const std::string name = attribute ? attribute->as_text() : text_argument(arguments, 0, "filter", line);
  if (!attribute && !knows_filter(name))
    fail(ErrorCode::Unsupported, "chat template", "line ", line, ": the filter '", name, "' is not supported");
  Arguments rest;
  for (size_t i = 1; i < arguments.values.size(); ++i) rest.values.push_back(arguments.values[i]);
  for (const Value& element : elements_of(from, line))
    out.push_back(attribute ? member_path(element, name, line) : apply_filter(name, element, rest, line));
  return Value::list(std::move(out));
}

Value join_filter(const Value& from, const Arguments& arguments, int line) {
  const Value* const by = arguments.get(0, "d");
  const Value* const attribute = arguments.get(1, "attribute");
  std::string out;
  bool first = true;
  for (const Value& element : elements_of(from, line)) {
    if (!first && by) out += by->printed();
    out += (attribute ? member_path(element, attribute->as_text(), line) : element).printed();
    check_length(out, line);
    first = false;
  }
  return Value::text(std::move(out));
}

Value default_filter(const Value& to, const Arguments& arguments, int) {
  const Value* const fallback = arguments.get(0, "default_value");
  const Value* const boolean = arguments.get(1, "boolean");
  const bool absent = to.is(Kind::Undefined) || (boolean && boolean->truth() && !to.truth());
  if (!absent) return to;
  return fallback ? *fallback : Value::text("");
}

Value tojson_filter(const Value& to, const Arguments& arguments, int line) {
  const Value* const indent = arguments.get(0, "indent");
  if (to.is(Kind::Undefined)) fail_at(line, "tojson of what is undefined");
  return Value::text(to.json(indent && indent->is(Kind::Integer)
                                 ? static_cast<int>(std::min<int64_t>(std::max<int64_t>(indent->as_integer(), 0), 16))
                                 : -1));
}

Value indent_filter(const Value& to, const Arguments& arguments, int line) {
  const Value* const width = arguments.get(0, "width");
  const Value* const first = arguments.get(1, "first");
  const Value* const blank = arguments.get(2, "blank");
  const int64_t count = width && width->is(Kind::Integer) ? width->as_integer() : 4;
  const std::string spaces(static_cast<size_t>(std::min<int64_t>(std::max<int64_t>(count, 0), 100)), ' ');
  const std::string text = to.printed();
  std::string out;
  for (size_t at = 0, number = 0; at <= text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const bool spaced = number == 0 ? first && first->truth() : end > at || (blank && blank->truth());
    if (number > 0) out += '\n';
    if (spaced) out += spaces;
    out.append(text, at, end - at);
    check_length(out, line);
    at = end + 1;
  }
  return Value::text(std::move(out));
}

Value number_filter(const Value& to, bool whole) {
  double number = to.is_number() ? to.as_real() : 0;
  if (to.is(Kind::Text)) number = std::strtod(to.as_text().c_str(), nullptr);
  const bool fits = number > -9e18 && number < 9e18;
  return whole ? Value::integer(fits ? static_cast<int64_t>(number) : 0) : Value::real(number);
}

constexpr Named<Value> kFilters[] = {
    {"trim",
     [](const Value& to, const Arguments& a, int) {
       const Value* const what = a.get(0, "chars");
       return Value::text(trimmed(text_of_value(to),
                                  what && what->is(Kind::Text) ? what->as_text() : std::string(kSpaces), true, true));
     }},
    {"length",
     [](const Value& to, const Arguments&, int line) {
       if (to.is_number() || to.is(Kind::None)) fail_at(line, "length of " + to.quoted());
       return Value::integer(static_cast<int64_t>(to.is(Kind::Undefined) ? 0 : to.size()));
     }},
    {"count", [](const Value& to, const Arguments& a, int line) { return apply_filter("length", to, a, line); }},
    {"tojson", tojson_filter},
    {"list", [](const Value& to, const Arguments&, int line) { return Value::list(elements_of(to, line)); }},
    {"join", join_filter},
    {"first",
     [](const Value& to, const Arguments&, int line) {
       const Value::List all = elements_of(to, line);
       return all.empty() ? Value() : all.front();
     }},
    {"last",
     [](const Value& to, const Arguments&, int line) {
       const Value::List all = elements_of(to, line);
       return all.empty() ? Value() : all.back();
     }},
    {"reverse",
     [](const Value& to, const Arguments&, int line) {
       Value::List all = elements_of(to, line);
       std::reverse(all.begin(), all.end());
       return Value::list(std::move(all));
     }},
    {"upper", [](const Value& to, const Arguments& a,
                 int line) { return call_method("upper", Value::text(to.printed()), a, line); }},
    {"lower", [](const Value& to, const Arguments& a,
                 int line) { return call_method("lower", Value::text(to.printed()), a, line); }},
    {"title", [](const Value& to, const Arguments& a,
                 int line) { return call_method("title", Value::text(to.printed()), a, line); }},
    {"capitalize", [](const Value& to, const Arguments& a,
                      int line) { return call_method("capitalize", Value::text(to.printed()), a, line); }},
    {"replace", [](const Value& to, const Arguments& a,
                   int line) { return call_method("replace", Value::text(to.printed()), a, line); }},
    {"default", default_filter},
    {"d", default_filter},
    {"string", [](const Value& to, const Arguments&, int) { return Value::text(to.printed()); }},
    {"safe", [](const Value& to, const Arguments&, int) { return Value::text(to.printed()); }},
    {"int", [](const Value& to, const Arguments&, int) { return number_filter(to, true); }},
    {"float", [](const Value& to, const Arguments&, int) { return number_filter(to, false); }},
    {"items", [](const Value& to, const Arguments&, int line) { return pairs_of(to, line); }},
    {"select", [](const Value& to, const Arguments& a, int line) { return selected(to, a, line, false, true); }},
    {"reject", [](const Value& to, const Arguments& a, int line) { return selected(to, a, line, false, false); }},
    {"selectattr", [](const Value& to, const Arguments& a, int line) { return selected(to, a, line, true, true); }},
    {"rejectattr", [](const Value& to, const Arguments& a, int line) { return selected(to, a, line, true, false); }},
    {"map", map_filter},
    {"indent", indent_filter},
};

bool equal_test(const Value& to, const Arguments& a, int line) { return to.equals(argument(a, 0, "equalto", line)); }

constexpr Named<bool> kTests[] = {
    {"defined", [](const Value& to, const Arguments&, int) { return !to.is(Kind::Undefined); }},
    {"undefined", [](const Value& to, const Arguments&, int) { return to.is(Kind::Undefined); }},
    {"none", [](const Value& to, const Arguments&, int) { return to.is(Kind::None); }},
    {"string", [](const Value& to, const Arguments&, int) { return to.is(Kind::Text); }},
    {"number", [](const Value& to, const Arguments&, int) { return to.is_number(); }},
    {"integer", [](const Value& to, const Arguments&, int) { return to.is(Kind::Integer); }},
    {"float", [](const Value& to, const Arguments&, int) { return to.is(Kind::Real); }},
    {"boolean", [](const Value& to, const Arguments&, int) { return to.is(Kind::Bool); }},
    {"true", [](const Value& to, const Arguments&, int) { return to.is(Kind::Bool) && to.truth(); }},
    {"false", [](const Value& to, const Arguments&, int) { return to.is(Kind::Bool) && !to.truth(); }},
    {"mapping", [](const Value& to, const Arguments&, int) { return to.is(Kind::Map); }},
    {"sequence",
     [](const Value& to, const Arguments&, int) { return to.is(Kind::List) || to.is(Kind::Text) || to.is(Kind::Map); }},
    {"iterable",
     [](const Value& to, const Arguments&, int) {
       return to.is(Kind::List) || to.is(Kind::Text) || to.is(Kind::Map) || to.is(Kind::Undefined);
     }},
    {"equalto", equal_test},
    {"eq", equal_test},
    {"sameas", equal_test},
    {"ne", [](const Value& to, const Arguments& a, int line) { return !equal_test(to, a, line); }},
    {"in", [](const Value& to, const Arguments& a,
              int line) { return binary("in", to, argument(a, 0, "in", line), line).truth(); }},
    {"odd", [](const Value& to, const Arguments&, int) { return to.as_integer() % 2 != 0; }},
    {"even", [](const Value& to, const Arguments&, int) { return to.as_integer() % 2 == 0; }},
};

bool one_of(const std::string& text, const Value& parts, bool starts, int line) {
  Value::List all = parts.is(Kind::List) ? parts.items() : Value::List{parts};
  return std::any_of(all.begin(), all.end(), [&](const Value& part) {
    if (!part.is(Kind::Text)) wrong(line, starts ? "startswith" : "endswith");
    const std::string& word = part.as_text();
    if (word.size() > text.size()) return false;
    return text.compare(starts ? 0 : text.size() - word.size(), word.size(), word) == 0;
  });
}

Value strip_method(const Value& of, const Arguments& a, bool left, bool right, int line) {
  if (const Value* const what = a.get(0, "chars"); what && !what->is(Kind::None)) {
    if (!what->is(Kind::Text)) wrong(line, "strip");
    return Value::text(trimmed(of.as_text(), what->as_text(), left, right));
  }
  return Value::text(trimmed(of.as_text(), kSpaces, left, right));
}

// Of texts; those of maps are in call_method.
constexpr Named<Value> kMethods[] = {
    {"strip", [](const Value& of, const Arguments& a, int line) { return strip_method(of, a, true, true, line); }},
    {"lstrip", [](const Value& of, const Arguments& a, int line) { return strip_method(of, a, true, false, line); }},
    {"rstrip", [](const Value& of, const Arguments& a, int line) { return strip_method(of, a, false, true, line); }},
    {"split",
     [](const Value& of, const Arguments& a, int) {
       const Value* const most = a.get(1, "maxsplit");
       return Value::list(split(of.as_text(), a.get(0, "sep"), most ? most->as_integer() : -1));
     }},
    {"replace",
     [](const Value& of, const Arguments& a, int line) {
       return Value::text(
           replaced(of.as_text(), text_argument(a, 0, "old", line), text_argument(a, 1, "new", line), line));
     }},
    {"startswith",
     [](const Value& of, const Arguments& a, int line) {
       return Value::boolean(one_of(of.as_text(), argument(a, 0, "startswith", line), true, line));
     }},
    {"endswith",
     [](const Value& of, const Arguments& a, int line) {
       return Value::boolean(one_of(of.as_text(), argument(a, 0, "endswith", line), false, line));
     }},
    {"upper", [](const Value& of, const Arguments&,
                 int) { return Value::text(mapped(of.as_text(), [](uint32_t code, bool) { return upper(code); })); }},
    {"lower",
     [](const Value& of, const Arguments&, int) {
       return Value::text(mapped(of.as_text(), [](uint32_t code, bool) { return unicode::lower(code); }));
     }},
    {"title",
     [](const Value& of, const Arguments&, int) {
       return Value::text(mapped(
           of.as_text(), [](uint32_t code, bool starts) { return starts ? upper(code) : unicode::lower(code); }));
     }},
    {"capitalize",
     [](const Value& of, const Arguments&, int) {
       bool first = true;
       return Value::text(mapped(of.as_text(), [&](uint32_t code, bool) {
         return std::exchange(first, false) ? upper(code) : unicode::lower(code);
       }));
     }},
    {"find",
     [](const Value& of, const Arguments& a, int line) {
       const size_t at = of.as_text().find(text_argument(a, 0, "find", line));
       if (at == std::string::npos) return Value::integer(-1);
       return Value::integer(static_cast<int64_t>(Value::text(of.as_text().substr(0, at)).size()));
     }},
};
constexpr const char* kMapMethods[] = {"items", "keys", "values", "get"};
constexpr const char* kFunctions[] = {"raise_exception", "namespace", "range", "strftime_now", "dict"};

template <class Row, size_t kCount>
const Row* row_of(const Row (&rows)[kCount], std::string_view name) {
  for (const Row& row : rows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}
template <size_t kCount>
bool among(const char* const (&names)[kCount], std::string_view name) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* own) { return name == own; });
}

Value map_method(const std::string& name, const Value& of, const Arguments& a, int line) {
  if (name == "items") return pairs_of(of, line);
  if (name == "get") {
    const Value* const found = of.find(text_argument(a, 0, "key", line));
    const Value* const fallback = a.get(1, "default");
    return found ? *found : fallback ? *fallback : Value::none();
  }
  Value::List out;
  for (const auto& [key, value] : of.entries()) out.push_back(name == "keys" ? Value::text(key) : value);
  return Value::list(std::move(out));
}

Value range_function(const Arguments& a, int line) {
  if (a.values.empty() || a.values.size() > 3) wrong(line, "range");
  for (const Value& value : a.values) {
    if (!value.is(Kind::Integer)) wrong(line, "range");
  }
  const int64_t first = a.values.size() > 1 ? a.values[0].as_integer() : 0;
  const int64_t last = a.values[a.values.size() > 1 ? 1 : 0].as_integer();
  const int64_t stride = a.values.size() > 2 ? a.values[2].as_integer() : 1;
  constexpr int64_t kFar = int64_t{1} << 40;
  for (const int64_t number : {first, last, stride})
    if (number < -kFar || number > kFar) wrong(line, "range");
  if (stride == 0) wrong(line, "range");
  Value::List out;
  for (int64_t i = first; stride > 0 ? i < last : i > last; i += stride) {
    if (static_cast<int64_t>(out.size()) >= kLongestRange) fail_at(line, "the range is too long");
    out.push_back(Value::integer(i));
  }
  return Value::list(std::move(out));
}

Value now_function(const Arguments& a, int line) {
  const std::string form = text_argument(a, 0, "format", line);
  const std::time_t now = std::time(nullptr);
  char text[256];
  std::tm parts{};
  if (!localtime_r(&now, &parts) || form.size() > 64) wrong(line, "strftime_now");
  return Value::text(std::string(text, std::strftime(text, sizeof text, form.c_str(), &parts)));
}

Value arithmetic(const std::string& symbol, const Value& left, const Value& right, int line) {
  const bool real = left.is(Kind::Real) || right.is(Kind::Real) || symbol == "/";
  const int64_t a = left.as_integer(), b = right.as_integer();
  if ((symbol == "/" || symbol == "//" || symbol == "%") && right.as_real() == 0) fail_at(line, "division by zero");
  if (real) {
    const double x = left.as_real(), y = right.as_real();
    if (symbol == "+") return Value::real(x + y);
    if (symbol == "-") return Value::real(x - y);
    if (symbol == "*") return Value::real(x * y);
    if (symbol == "/") return Value::real(x / y);
    fail_at(line, symbol + " of numbers that are not whole");
  }
  int64_t out = 0;
  bool overflows = false;
  if (symbol == "+") overflows = __builtin_add_overflow(a, b, &out);
  if (symbol == "-") overflows = __builtin_sub_overflow(a, b, &out);
  if (symbol == "*") overflows = __builtin_mul_overflow(a, b, &out);
  if (overflows) fail_at(line, "a number beyond 64 bits");
  if (symbol == "+" || symbol == "-" || symbol == "*") return Value::integer(out);
  if (a == std::numeric_limits<int64_t>::min() && b == -1) fail_at(line, "a number beyond 64 bits");
  // Rounded down, as in Python.
  const int64_t rest = a % b, down = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
  return Value::integer(symbol == "%" ? rest + down * b : a / b - down);
}

bool contains(const Value& all, const Value& what, int line) {
  if (all.is(Kind::Text)) {
    if (!what.is(Kind::Text)) fail_at(line, what.quoted() + " in a text");
    return all.as_text().find(what.as_text()) != std::string::npos;
  }
  if (all.is(Kind::Map)) return what.is(Kind::Text) && all.find(what.as_text()) != nullptr;
  const Value::List items = elements_of(all, line);
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return item.equals(what); });
}

bool less(const Value& left, const Value& right, int line) {
  if (left.is(Kind::Text) && right.is(Kind::Text)) return left.as_text() < right.as_text();
  if (left.is_number() && right.is_number()) return left.as_real() < right.as_real();
  fail_at(line, cat(left.quoted(), " and ", right.quoted(), " cannot be ordered"));
}

}  // namespace

const TemplateValue* Arguments::get(size_t index, std::string_view name) const {
  if (index < values.size()) return &values[index];
  for (const auto& [own, value] : named) {
    if (own == name) return &value;
  }
  return nullptr;
}

void fail_at(int line, const std::string& message) {
  std::string text = message.substr(0, 300);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  fail(ErrorCode::InvalidInput, "chat template", "line ", line, ": ", text);
}

bool knows_filter(std::string_view name) { return row_of(kFilters, name) != nullptr; }
bool knows_test(std::string_view name) { return row_of(kTests, name) != nullptr; }
bool knows_method(std::string_view name) { return row_of(kMethods, name) != nullptr || among(kMapMethods, name); }
bool knows_function(std::string_view name) { return among(kFunctions, name); }

TemplateValue apply_filter(const std::string& name, const TemplateValue& to, const Arguments& arguments, int line) {
  return row_of(kFilters, name)->apply(to, arguments, line);
}

bool apply_test(const std::string& name, const TemplateValue& to, const Arguments& arguments, int line) {
  return row_of(kTests, name)->apply(to, arguments, line);
}

TemplateValue call_method(const std::string& name, const TemplateValue& of, const Arguments& arguments, int line) {
  if (of.is(Kind::Map) && among(kMapMethods, name)) return map_method(name, of, arguments, line);
  const Named<Value>* const method = row_of(kMethods, name);
  if (of.is(Kind::Text) && method) return method->apply(of, arguments, line);
  const std::string what = of.is(Kind::Undefined) ? of.as_text() + ", which is undefined" : of.quoted();
  fail_at(line, cat("there is no ", name, "() of ", what));
}

TemplateValue call_function(const std::string& name, const Arguments& arguments, int line) {
  if (name == "raise_exception")
    fail_at(line, "the template refuses: " + argument(arguments, 0, "message", line).printed());
  if (name == "range") return range_function(arguments, line);
  if (name == "strftime_now") return now_function(arguments, line);
  return name == "namespace" ? Value::name_space(arguments.named) : Value::map(arguments.named);
}

TemplateValue binary(const std::string& symbol, const TemplateValue& left, const TemplateValue& right, int line) {
  if (symbol == "==") return Value::boolean(left.equals(right));
  if (symbol == "!=") return Value::boolean(!left.equals(right));
  if (symbol == "<") return Value::boolean(less(left, right, line));
  if (symbol == ">") return Value::boolean(less(right, left, line));
  if (symbol == "<=") return Value::boolean(!less(right, left, line));
  if (symbol == ">=") return Value::boolean(!less(left, right, line));
  if (symbol == "in") return Value::boolean(contains(right, left, line));
  if (symbol == "not in") return Value::boolean(!contains(right, left, line));
  if (symbol == "~") return Value::text(left.printed() + right.printed());
  if (left.is_number() && right.is_number()) return arithmetic(symbol, left, right, line);
  if (symbol == "+" && left.is(Kind::Text) && right.is(Kind::Text))
    return Value::text(left.as_text() + right.as_text());
  if (symbol == "+" && left.is(Kind::List) && right.is(Kind::List)) {
    Value::List all = left.items();
    all.insert(all.end(), right.items().begin(), right.items().end());
    return Value::list(std::move(all));
  }
  const auto what = [](const Value& value) {
    return value.is(Kind::Undefined) ? value.as_text() + " (undefined)" : value.quoted();
  };
  fail_at(line, cat(what(left), " ", symbol, " ", what(right), " means nothing"));
}

TemplateValue member(const TemplateValue& of, const std::string& name, int line) {
  if (of.is(Kind::Undefined))
    fail_at(line, cat(of.as_text().empty() ? "a value" : of.as_text(), " is undefined, it has no ", name));
  if (of.is(Kind::Map) && !name.empty()) {
    if (const Value* const found = of.find(name)) return *found;
  }
  return Value::undefined(name);
}

TemplateValue::List elements_of(const TemplateValue& value, int line) {
  if (value.is(Kind::List)) return value.items();
  Value::List out;
  if (value.is(Kind::Undefined)) return out;
  if (value.is(Kind::Map)) {
    for (const auto& [key, unused] : value.entries()) out.push_back(Value::text(key));
    return out;
  }
  if (!value.is(Kind::Text)) fail_at(line, value.quoted() + " has no elements");
  std::string_view rest(value.as_text());
  while (!rest.empty()) {
    const size_t bytes = unicode::first_character(rest).bytes;
    out.push_back(Value::text(std::string(rest.substr(0, bytes))));
    rest.remove_prefix(bytes);
  }
  return out;
}

}  // namespace gyrus::jinja
