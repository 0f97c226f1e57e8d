#include "text/template_json.h"

#include <nlohmann/json.hpp>

namespace gyrus {

TemplateValue to_template_value(const nlohmann::ordered_json& json) {
  if (json.is_boolean()) return TemplateValue::boolean(json.get<bool>());
  if (json.is_number_integer()) return TemplateValue::integer(json.get<int64_t>());
  if (json.is_number()) return TemplateValue::real(json.get<double>());
  if (json.is_string()) return TemplateValue::text(json.get<std::string>());
  if (json.is_array()) {
    TemplateValue::List out;
    for (const nlohmann::ordered_json& element : json) out.push_back(to_template_value(element));
    return TemplateValue::list(std::move(out));
  }
  if (!json.is_object()) return TemplateValue::none();
  TemplateValue::Map out;
  for (auto it = json.begin(); it != json.end(); ++it) out.emplace_back(it.key(), to_template_value(it.value()));
  return TemplateValue::map(std::move(out));
}

}  // namespace gyrus
