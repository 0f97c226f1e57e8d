#include "manifest_write.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common.h"
#include "core/error.h"
#include "core/files.h"
#include "engine/known_models.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

fs::path manifest_path(const Model& model) {
  const fs::path path(model.path);
  std::error_code failed;
  return (fs::is_directory(path, failed) ? path : path.parent_path()) / kManifestName;
}

}  // namespace

bool lacks_manifest(const DescribedModel& described) {
  std::error_code failed;
  return described.model.network && !fs::exists(manifest_path(described.model), failed) && !recognise(described.model);
}

void say_lacking(const DescribedModel& described, const std::string& as_given) {
  say(cat("[", as_given, "] is not known, and no ", kManifestName,
          " says how scans are prepared for it: intensities are ", "normalised by ",
          normalize_text(described.manifest.normalize), "; gyrus models describe ", as_given,
          " --write writes one to fill in"));
}

std::string write_manifest(const DescribedModel& described) {
  const fs::path path = manifest_path(described.model);
  std::error_code failed;
  if (fs::exists(path, failed)) fail(ErrorCode::InvalidInput, path.string(), "is there already; change it by hand");
  const Manifest& manifest = described.manifest;
  nlohmann::ordered_json out = {{"title", manifest.title},
                                {"description", manifest.description},
                                {"normalize", normalize_text(manifest.normalize)},
                                {"labels", nlohmann::json::array()},
                                {"components", manifest.largest_component ? "largest" : "keep"},
                                {"fill_holes", manifest.fill_holes},
                                {"allow_empty", manifest.allow_empty},
                                {"licence", manifest.licence},
                                {"citation", manifest.citation}};
  for (const LabelEntry& entry : manifest.labels.entries) out["labels"].push_back(entry.name);
  write_file(path.string(), out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return path.string();
}

}  // namespace gyrus::cli
