#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/pipeline.h"
#include "volume/provenance.h"

namespace gyrus::cli {

// What a finished scan comes to.
struct Summary {
  std::string text;             // two lines for people
  nlohmann::ordered_json json;  // times by stage, device, plan memory, label counts, notices
};

Summary summarize(const Segmentation& item, const std::string& output, const Manifest& manifest,
                  const NormalizeOptions& normalize, const Timeline& timeline, const Provenance& by);

}  // namespace gyrus::cli
