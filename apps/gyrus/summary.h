#pragma once
#include <string>

#include "pipeline.h"

namespace gyrus::cli {

// What a finished scan is summed up from.
struct Summary {
  const Item& item;
  const std::string& output;
  const Manifest& manifest;
  const PipelineOptions& options;
  const Session& session;
  const Timeline& timeline;
};

// Two lines for people.
std::string summary_text(const Summary& summary);
// Times by stage, device, plan memory, label counts, notices.
std::string summary_json(const Summary& summary);

}  // namespace gyrus::cli
