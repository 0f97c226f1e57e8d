// Writing a plan as JSON; plan_fields.h describes the form.

#include <cmath>

#include "plan/plan_fields.h"

namespace gyrus {
namespace {

using namespace plan_json;

Json written(const std::string& text) { return text; }
Json written(bool flag) { return flag; }
Json written(uint32_t value) { return value; }
Json written(uint64_t value) { return value; }
Json written(int64_t value) { return value; }
Json written(double value) {
  if (!std::isfinite(value)) invalid("a cost or range that is no finite number");
  return value;
}
Json written(const std::array<uint32_t, 3>& value) { return value; }
Json written(const BufferRange& range) { return Json::array({range.buffer, range.offset, range.size}); }
Json written(const Piece& piece) {
  return Json::array({piece.host_offset, piece.range.buffer, piece.range.offset, piece.range.size});
}

template <class Enum, std::enable_if_t<std::is_enum_v<Enum>, int> = 0>
Json written(Enum value) {
  for (const auto& name : names_of(value))
    if (name.value == value) return name.text;
  invalid("a value without a name");
}

Json written(const Step& step);
template <class T, class F = Fields<T>, class = decltype(sizeof(F))>
Json written(const T& item);

template <class T>
Json written(const std::optional<T>& value) {
  return value ? written(*value) : Json(nullptr);
}

template <class T>
Json written(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(written(item));
  return list;
}

template <class T, class F, class>
Json written(const T& item) {
  Json json = Json::object();
  F::visit(item, [&](const char* key, const auto& value) { json[key] = written(value); });
  return json;
}

Json written(const Step& step) {
  return std::visit(
      [](const auto& alternative) {
        using F = Fields<std::decay_t<decltype(alternative)>>;
        Json json = {{"op", F::kOp}};
        F::visit(alternative, [&](const char* key, const auto& value) { json[key] = written(value); });
        return json;
      },
      step);
}

// One line for each entry of a list.
template <class T>
void write(std::string& text, const char* key, const std::vector<T>& items) {
  text += cat(",\n\"", key, "\": [");
  for (size_t i = 0; i < items.size(); ++i) text += (i ? ",\n" : "\n") + written(items[i]).dump();
  text += items.empty() ? "]" : "\n]";
}

template <class T>
void write(std::string& text, const char* key, const T& value) {
  text += cat(",\n\"", key, "\": ", written(value).dump());
}

}  // namespace

std::string to_json(const Plan& plan) {
  try {
    std::string text = cat("{\n\"format\": \"", kFormat, "\"");
    write(text, "precision", plan.precision);
    write(text, "needs", plan.needs);
    Json features = written(plan.features);
    if (plan.features.subgroup_matrix) features[kSubgroupMatrixKey] = true;
    text += cat(",\n\"features\": ", features.dump());
    write(text, "weights", uint64_t{plan.weights.size()});
    Fields<Plan>::visit(plan, [&](const char* key, const auto& value) { write(text, key, value); });
    return text + "\n}\n";
  } catch (const nlohmann::json::exception& error) {
    invalid("a name or kernel is not UTF-8: ", error.what());
  }
}

}  // namespace gyrus
