#include "manifest.h"

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "volume/io.h"

namespace gyrus::cli {

namespace fs = std::filesystem;

Manifest manifest_of(const Model& model) {
  SideFiles files;
  if (!model.path.empty()) {
    const fs::path path(model.path);
    std::error_code ignored;
    for (const fs::directory_entry& entry :
         fs::directory_iterator(fs::is_directory(path) ? path : path.parent_path(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (is_side_file(name)) files[name] = read_file(entry.path().string());
    }
  }
  return gyrus::manifest_of(model, files);
}

std::string models_folder() {
  const auto variable = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  if (const std::string own = variable("GYRUS_MODELS"); !own.empty()) return own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return (fs::path(cache) / "gyrus/models").string();
  return (fs::path(variable("HOME")) / ".cache/gyrus/models").string();
}

std::string resolve_model(const std::string& text) {
  if (fs::exists(text)) return text;
  const bool is_name = text.find('/') == std::string::npos;
  const fs::path cached = fs::path(models_folder()) / text;
  if (is_name && fs::exists(cached)) return cached.string();
  const std::string hint = known_model(text).title.empty() ? "" : cat(" (gyrus models fetch ", text, " brings it)");
  fail(ErrorCode::Io, text, "no model is there",
       is_name ? cat(", and none of that name in ", models_folder(), hint) : std::string());
}

}  // namespace gyrus::cli
