#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "pipeline.h"

namespace gyrus::cli {

// What a finished scan comes to.
struct Summary {
  std::string text;             // two lines for people
  nlohmann::ordered_json json;  // times by stage, device, plan memory, label counts, notices
};

Summary summarize(const Item& item, const std::string& output, const Manifest& manifest, const PipelineOptions& options,
                  const Timeline& timeline);

}  // namespace gyrus::cli
