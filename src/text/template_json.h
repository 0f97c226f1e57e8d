#pragma once
#include <nlohmann/json_fwd.hpp>

#include "text/template_value.h"

namespace gyrus {

// A JSON document as a value of templates; the order of keys stays.
TemplateValue to_template_value(const nlohmann::ordered_json& json);

}  // namespace gyrus
