// A config in TOML becomes the document that one in JSON is, so that both are read, checked and named by the same code.
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "core/error.h"
#include "training/config_reader.h"

namespace gyrus {
namespace {

using Json = nlohmann::json;

class Converter {
 public:
  explicit Converter(const std::string& file) : file_(file) {}

  Json value(const toml::node& node, const std::string& place) const {
    if (const toml::table* table = node.as_table()) return object(*table, place);
    if (const toml::array* array = node.as_array()) {
      Json list = Json::array();
      for (const toml::node& item : *array) list.push_back(value(item, cat(place, "[", list.size(), "]")));
      return list;
    }
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return number->get();
    if (const auto* number = node.as_floating_point()) return number->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    fail(ErrorCode::InvalidInput, file_, place, ": is a date or time, which no key of a config takes");
  }

  Json object(const toml::table& table, const std::string& place) const {
    Json made = Json::object();
    for (const auto& [key, item] : table) {
      const std::string name(key.str());
      made[name] = value(item, place.empty() ? name : place + "." + name);
    }
    return made;
  }

 private:
  const std::string& file_;
};

}  // namespace

Json parse_config_toml(const std::string& text, const std::string& file) {
  toml::table root;
  try {
    root = toml::parse(std::string_view(text));
  } catch (const toml::parse_error& error) {
    std::string why(error.description());
    for (char& c : why)
      if (c == '\n' || c == '\r') c = ' ';
    fail(ErrorCode::InvalidInput, file, "is no TOML: line ", error.source().begin.line, " cannot be read (", why, ")");
  }
  return Converter(file).object(root, "");
}

}  // namespace gyrus
