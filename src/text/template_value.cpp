#include "text/template_value.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "text/unicode.h"

namespace gyrus {
namespace {

constexpr int kDeepest = 100;
constexpr uint64_t kMostBytes = uint64_t{64} << 20;

[[noreturn]] void refuse(const char* what) { fail(ErrorCode::InvalidInput, "chat template", what); }

// The shortest decimal that is this double again, as Python prints it.
std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

void append_hex(std::string& out, const char* form, unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, form, value);
  out += text;
}

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          append_hex(out, "\\u%04x", static_cast<unsigned char>(c));
        else
          out += c;
    }
  }
  return out + '"';
}

}  // namespace

TemplateValue TemplateValue::none() {
  TemplateValue out;
  out.kind_ = Kind::None;
  return out;
}
TemplateValue TemplateValue::undefined(std::string name) {
  TemplateValue out;
  out.text_ = std::move(name);
  return out;
}
TemplateValue TemplateValue::boolean(bool value) {
  TemplateValue out;
  out.kind_ = Kind::Bool;
  out.integer_ = value ? 1 : 0;
  return out;
}
TemplateValue TemplateValue::integer(int64_t value) {
  TemplateValue out;
  out.kind_ = Kind::Integer;
  out.integer_ = value;
  return out;
}
TemplateValue TemplateValue::real(double value) {
  TemplateValue out;
  out.kind_ = Kind::Real;
  out.real_ = value;
  return out;
}
TemplateValue TemplateValue::text(std::string value) {
  TemplateValue out;
  out.kind_ = Kind::Text;
  out.text_ = std::move(value);
  return out;
}
TemplateValue TemplateValue::list(List values) {
  TemplateValue out;
  out.kind_ = Kind::List;
  for (const TemplateValue& value : values) out.hold(value);
  out.list_ = std::make_shared<List>(std::move(values));
  return out;
}
TemplateValue TemplateValue::map(Map values) {
  TemplateValue out;
  out.kind_ = Kind::Map;
  for (const auto& [key, value] : values) out.hold(value);
  out.map_ = std::make_shared<Map>(std::move(values));
  return out;
}
TemplateValue TemplateValue::name_space(Map values) {
  TemplateValue out = map(std::move(values));
  out.namespace_ = true;
  return out;
}

// Only namespaces change, so that what holds none has no end of its own.
void TemplateValue::hold(const TemplateValue& part) {
  if (part.namespace_) refuse("a namespace inside another value is not supported");
  depth_ = std::max(depth_, part.depth_ + 1);
  weight_ += part.text_.size() + part.weight_ + sizeof(TemplateValue);
  if (depth_ > kDeepest) refuse("a value is nested too deep");
  if (weight_ > kMostBytes) refuse("a list or map is too large");
}

bool TemplateValue::truth() const {
  switch (kind_) {
    case Kind::Undefined:
    case Kind::None: return false;
    case Kind::Bool:
    case Kind::Integer: return integer_ != 0;
    case Kind::Real: return real_ != 0;
    case Kind::Text: return !text_.empty();
    case Kind::List: return !list_->empty();
    case Kind::Map: return !map_->empty();
  }
  return false;
}

const TemplateValue* TemplateValue::find(std::string_view key) const {
  for (const auto& [name, value] : *map_) {
    if (name == key) return &value;
  }
  return nullptr;
}

void TemplateValue::put(const std::string& key, TemplateValue value) {
  if (!namespace_ || value.namespace_) hold(value);
  for (auto& [name, old] : *map_) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  map_->emplace_back(key, std::move(value));
}

size_t TemplateValue::size() const {
  if (kind_ == Kind::List) return list_->size();
  if (kind_ == Kind::Map) return map_->size();
  size_t count = 0;
  for (std::string_view rest(text_); kind_ == Kind::Text && !rest.empty(); ++count)
    rest.remove_prefix(unicode::first_character(rest).bytes);
  return count;
}

std::string TemplateValue::printed() const {
  if (kind_ == Kind::Text) return text_;
  return kind_ == Kind::Undefined ? std::string() : quoted();
}

std::string TemplateValue::quoted() const {
  switch (kind_) {
    case Kind::Undefined: return "Undefined";
    case Kind::None: return "None";
    case Kind::Bool: return integer_ != 0 ? "True" : "False";
    case Kind::Integer: return std::to_string(integer_);
    case Kind::Real: return real_text(real_);
    case Kind::Text: break;
    case Kind::List: {
      std::string out = "[";
      for (const TemplateValue& value : *list_) out += (out.size() > 1 ? ", " : "") + value.quoted();
      return out + "]";
    }
    case Kind::Map: {
      std::string out = "{";
      for (const auto& [key, value] : *map_)
        out += (out.size() > 1 ? ", " : "") + text(key).quoted() + ": " + value.quoted();
      return out + "}";
    }
  }
  const bool single = text_.find('\'') == std::string::npos || text_.find('"') != std::string::npos;
  const char mark = single ? '\'' : '"';
  std::string out(1, mark);
  for (const char c : text_) {
    if (c == '\\' || c == mark) out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      append_hex(out, "\\x%02x", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + mark;
}

std::string TemplateValue::json(int indent) const {
  std::string out;
  write_json(out, indent, 0);
  return out;
}

void TemplateValue::write_json(std::string& out, int indent, int depth) const {
  if (out.size() > kMostBytes) refuse("the text is too long");
  const auto line = [&](int level) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(indent * level), ' ');
  };
  const char* const between = indent < 0 ? ", " : ",";
  switch (kind_) {
    case Kind::Undefined:
    case Kind::None: out += "null"; return;
    case Kind::Bool: out += integer_ != 0 ? "true" : "false"; return;
    case Kind::Integer:
    case Kind::Real: out += quoted(); return;
    case Kind::Text: out += json_text(text_); return;
    case Kind::List: {
      out += '[';
      for (size_t i = 0; i < list_->size(); ++i) {
        if (i > 0) out += between;
        line(depth + 1);
        (*list_)[i].write_json(out, indent, depth + 1);
      }
      if (!list_->empty()) line(depth);
      out += ']';
      return;
    }
    case Kind::Map: {
      out += '{';
      for (size_t i = 0; i < map_->size(); ++i) {
        if (i > 0) out += between;
        line(depth + 1);
        out += json_text((*map_)[i].first) + ": ";
        (*map_)[i].second.write_json(out, indent, depth + 1);
      }
      if (!map_->empty()) line(depth);
      out += '}';
      return;
    }
  }
}

bool TemplateValue::equals(const TemplateValue& other) const {
  if (is_number() && other.is_number()) return as_real() == other.as_real();
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::Text) return text_ == other.text_;
  if (kind_ == Kind::List || kind_ == Kind::Map) {
    if (size() != other.size()) return false;
    for (size_t i = 0; i < size(); ++i) {
      if (kind_ == Kind::List) {
        if (!(*list_)[i].equals((*other.list_)[i])) return false;
        continue;
      }
      const TemplateValue* const same = other.find((*map_)[i].first);
      if (!same || !(*map_)[i].second.equals(*same)) return false;
    }
  }
  return true;
}

}  // namespace gyrus
