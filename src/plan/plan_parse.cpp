// Reading a plan from JSON, strictly; plan_fields.h describes the form.

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/check.h"
#include "plan/plan_fields.h"

namespace gyrus {
namespace {

using namespace plan_json;

// An object of the file, of which every key must be asked for.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) invalid(where_, " is not an object");
  }
  const Json& at(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end()) invalid(where_, " has no '", key, "'");
    asked_.insert(key);
    return *found;
  }
  void finish() const {
    for (const auto& [key, value] : json_.items())
      if (!asked_.count(key)) invalid(where_, " has an unknown key '", key, "'");
  }
  std::string path(const char* key) const { return cat(where_, ".", key); }

 private:
  const Json& json_;
  std::string where_;
  std::set<std::string> asked_;
};

// A name or label has no line ends, since later messages show it; a kernel's text has.
void read(const Json& json, const std::string& where, std::string& value) {
  if (!json.is_string()) invalid(where, " is not a string");
  value = json.get<std::string>();
  const bool is_text = where.size() > 5 && where.compare(where.size() - 5, 5, ".wgsl") == 0;
  if (!is_text && std::any_of(value.begin(), value.end(), is_control)) invalid(where, " has control characters");
}

void read(const Json& json, const std::string& where, bool& value) {
  if (!json.is_boolean()) invalid(where, " is not true or false");
  value = json.get<bool>();
}

void read(const Json& json, const std::string& where, uint64_t& value) {
  if (!json.is_number_unsigned()) invalid(where, " is not a whole number of at least 0");
  value = json.get<uint64_t>();
}

void read(const Json& json, const std::string& where, uint32_t& value) {
  uint64_t wide = 0;
  read(json, where, wide);
  if (wide > UINT32_MAX) invalid(where, " is over 2^32: ", wide);
  value = static_cast<uint32_t>(wide);
}

void read(const Json& json, const std::string& where, int64_t& value) {
  uint64_t wide = 0;
  read(json, where, wide);
  if (wide > INT64_MAX) invalid(where, " is over 2^63: ", wide);
  value = static_cast<int64_t>(wide);
}

void read(const Json& json, const std::string& where, double& value) {
  if (!json.is_number()) invalid(where, " is not a number");
  value = json.get<double>();
  if (!std::isfinite(value)) invalid(where, " is not finite");
}

template <class Enum, std::enable_if_t<std::is_enum_v<Enum>, int> = 0>
void read(const Json& json, const std::string& where, Enum& value) {
  std::string text;
  read(json, where, text);
  for (const auto& name : names_of(value)) {
    if (text != name.text) continue;
    value = name.value;
    return;
  }
  invalid(where, " is the unknown '", text, "'");
}

const Json& list(const Json& json, const std::string& where) {
  if (!json.is_array()) invalid(where, " is not a list");
  return json;
}

void read(const Json& json, const std::string& where, std::array<uint32_t, 3>& value) {
  if (list(json, where).size() != 3) invalid(where, " has ", json.size(), " entries in place of 3");
  for (size_t i = 0; i < 3; ++i) read(json[i], where, value[i]);
}

void read(const Json& json, const std::string& where, BufferRange& range) {
  if (list(json, where).size() != 3) invalid(where, " is not [buffer, offset, size]");
  read(json[0], where, range.buffer);
  read(json[1], where, range.offset);
  read(json[2], where, range.size);
}

void read(const Json& json, const std::string& where, Piece& piece) {
  if (list(json, where).size() != 4) invalid(where, " is not [hostOffset, buffer, offset, size]");
  read(json[0], where, piece.host_offset);
  read(json[1], where, piece.range.buffer);
  read(json[2], where, piece.range.offset);
  read(json[3], where, piece.range.size);
}

void read(const Json& json, const std::string& where, Step& step);
template <class T, class F = Fields<T>, class = decltype(sizeof(F))>
void read(const Json& json, const std::string& where, T& item);

template <class T>
void read(const Json& json, const std::string& where, std::optional<T>& value) {
  if (!json.is_null()) read(json, where, value.emplace());
}

template <class T>
void read(const Json& json, const std::string& where, std::vector<T>& items) {
  for (const Json& item : list(json, where)) {
    items.emplace_back();
    read(item, cat(where, "[", items.size() - 1, "]"), items.back());
  }
}

template <class T>
void read_fields(Object& object, T& item) {
  Fields<T>::visit(item, [&](const char* key, auto& value) { read(object.at(key), object.path(key), value); });
}

template <class T, class F, class>
void read(const Json& json, const std::string& where, T& item) {
  Object object(json, where);
  read_fields(object, item);
  object.finish();
}

template <class T>
bool read_step(Object& object, const std::string& op, Step& step) {
  if (op != Fields<T>::kOp) return false;
  read_fields(object, step.emplace<T>());
  return true;
}

void read(const Json& json, const std::string& where, Step& step) {
  Object object(json, where);
  std::string op;
  read(object.at("op"), object.path("op"), op);
  if (!read_step<Dispatch>(object, op, step) && !read_step<Copy>(object, op, step) &&
      !read_step<Clear>(object, op, step))
    invalid(where, " has the unknown op '", op, "'");
  object.finish();
}

// Parses strictly: a key that comes twice would silently hide the first.
Json parse_strictly(const std::string& text) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) invalid("is not well-formed JSON");
  if (!twice.empty()) invalid("has the key '", twice, "' twice in one object");
  return json;
}

}  // namespace

Plan parse_plan(const std::string& text, std::vector<std::byte> weights) {
  const Json json = parse_strictly(text);
  Object object(json, "plan");
  std::string format;
  read(object.at("format"), object.path("format"), format);
  if (format != kFormat)
    invalid("has the format '", format, "'; this version reads '", kFormat, "': compile or export the model again");
  uint64_t weight_bytes = 0;
  read(object.at("weights"), object.path("weights"), weight_bytes);
  if (weight_bytes != weights.size())
    invalid("goes with a weights file of ", weight_bytes, " bytes; the one given has ", weights.size());
  Plan plan;
  read(object.at("precision"), object.path("precision"), plan.precision);
  if (plan.precision != "f32" && plan.precision != "f16") invalid("has the unknown precision '", plan.precision, "'");
  read(object.at("needs"), object.path("needs"), plan.needs);
  Json features = object.at("features");
  if (features.is_object() && features.contains(kSubgroupMatrixKey)) {
    read(features[kSubgroupMatrixKey], object.path("features"), plan.features.subgroup_matrix);
    features.erase(kSubgroupMatrixKey);
  }
  read(features, object.path("features"), plan.features);
  read_fields(object, plan);
  object.finish();
  plan.weights = std::move(weights);
  check_consistent(plan);
  return plan;
}

}  // namespace gyrus
