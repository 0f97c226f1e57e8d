#include "training/config_reader.h"

#include <algorithm>

#include "core/error.h"

namespace gyrus {
namespace {

using Json = nlohmann::json;

std::string shown(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

Json parse_config_json(const std::string& text, const std::string& file) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto note = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second && twice.empty())
      twice = parsed.get<std::string>();
    return true;
  };
  Json root;
  try {
    root = Json::parse(text, note, true, true);
  } catch (const Json::parse_error& error) {
    const auto end = std::min(text.size(), static_cast<size_t>(error.byte));
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    fail(ErrorCode::InvalidInput, file, "is no JSON: line ", line, " cannot be read");
  }
  if (!twice.empty()) fail(ErrorCode::InvalidInput, file, "\"", twice, "\" stands twice in the same object");
  return root;
}

ConfigObject::ConfigObject(const Json& json, std::string file, std::string place)
    : json_(&json), file_(std::move(file)), place_(std::move(place)) {
  if (!json.is_object())
    fail(ErrorCode::InvalidInput, file_, place_.empty() ? "the config" : place_, ": ", shown(json), " is no object");
}

std::string ConfigObject::place(const std::string& key) const {
  return place_.empty() ? key : key.empty() ? place_ : place_ + "." + key;
}

void ConfigObject::bad(const std::string& key, const std::string& why) const {
  fail(ErrorCode::InvalidInput, file_, place(key), ": ", why);
}

bool ConfigObject::has(const std::string& key) const {
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

const Json* ConfigObject::find(const std::string& key) {
  known_.insert(key);
  return has(key) ? &json_->at(key) : nullptr;
}

const Json& ConfigObject::at(const std::string& key) {
  const Json* found = find(key);
  if (!found) bad(key, "is missing");
  return *found;
}

ConfigObject ConfigObject::object(const std::string& key) { return {at(key), file_, place(key)}; }

std::string ConfigObject::text(const std::string& key) {
  const Json& found = at(key);
  if (!found.is_string() || found.get<std::string>().empty()) bad(key, shown(found) + " is no text");
  return found.get<std::string>();
}

std::string ConfigObject::text(const std::string& key, const std::string& absent) {
  return find(key) ? text(key) : absent;
}

bool ConfigObject::flag(const std::string& key, bool absent) {
  const Json* found = find(key);
  if (!found) return absent;
  if (!found->is_boolean()) bad(key, shown(*found) + " is neither true nor false");
  return found->get<bool>();
}

std::optional<double> ConfigObject::number(const std::string& key, double least, double most) {
  const Json* found = find(key);
  if (!found) return {};
  if (!found->is_number()) bad(key, shown(*found) + " is no number");
  const auto value = found->get<double>();
  if (!(value >= least && value <= most)) bad(key, cat(shown(*found), " is not between ", least, " and ", most));
  return value;
}

double ConfigObject::number(const std::string& key, double absent, double least, double most) {
  return number(key, least, most).value_or(absent);
}

int64_t ConfigObject::integer(const std::string& key, int64_t absent, int64_t least, int64_t most) {
  const Json* found = find(key);
  if (!found) return absent;
  return integers(key, least, most).size() == 1 && !found->is_array() ? found->get<int64_t>()
                                                                      : (bad(key, "one number is expected"), 0);
}

std::vector<int64_t> ConfigObject::integers(const std::string& key, int64_t least, int64_t most) {
  const Json& found = at(key);
  const Json list = found.is_array() ? found : Json::array({found});
  std::vector<int64_t> values;
  for (const Json& item : list) {
    if (!item.is_number_integer()) bad(key, shown(item) + " is no whole number");
    const auto value = item.get<int64_t>();
    if (value < least || value > most) bad(key, cat(value, " is not between ", least, " and ", most));
    values.push_back(value);
  }
  if (values.empty()) bad(key, "is an empty list");
  return values;
}

std::vector<double> ConfigObject::numbers(const std::string& key, double least, double most) {
  const Json& found = at(key);
  const Json list = found.is_array() ? found : Json::array({found});
  std::vector<double> values;
  for (const Json& item : list) {
    if (!item.is_number()) bad(key, shown(item) + " is no number");
    const auto value = item.get<double>();
    if (!(value >= least && value <= most)) bad(key, cat(value, " is not between ", least, " and ", most));
    values.push_back(value);
  }
  if (values.empty()) bad(key, "is an empty list");
  return values;
}

std::vector<std::string> ConfigObject::texts(const std::string& key) {
  const Json& found = at(key);
  const Json list = found.is_array() ? found : Json::array({found});
  std::vector<std::string> values;
  for (const Json& item : list) {
    if (!item.is_string()) bad(key, shown(item) + " is no text");
    values.push_back(item.get<std::string>());
  }
  return values;
}

size_t ConfigObject::word(const std::string& key, const std::vector<std::string>& words) {
  if (!find(key)) return 0;
  const std::string found = text(key);
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == found) return i;
    list += (i == 0 ? "" : ", ") + words[i];
  }
  bad(key, "\"" + found + "\" is not known; there are: " + list);
}

std::pair<double, double> ConfigObject::range(const std::string& key, std::pair<double, double> absent, double least,
                                              double most) {
  if (!find(key)) return absent;
  const std::vector<double> values = numbers(key, least, most);
  if (values.size() > 2 || values.front() > values.back()) bad(key, "expected one number, or the least and the most");
  return {values.front(), values.back()};
}

void ConfigObject::done() const {
  for (const auto& [key, value] : json_->items()) {
    if (known_.count(key)) continue;
    std::string list;
    for (const std::string& name : known_) list += (list.empty() ? "" : ", ") + name;
    bad(key, "is not known; there are: " + list);
  }
}

}  // namespace gyrus
