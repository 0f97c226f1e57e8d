#include "model_fetch.h"

#include <algorithm>
#include <filesystem>

#include "common.h"
#include "engine/known_models.h"
#include "manifest_write.h"
#include "progress.h"
#include "segment_arguments.h"

namespace gyrus::cli {

std::string fetch(const std::string& name, const std::string& from, bool quiet) {
  ProgressBar bar(!quiet);
  FetchOptions options;
  options.from = from;
  options.progress = [&](double fraction, const std::string& file) { bar.show(fraction, file); };
  options.notice = [&](const std::string& line) {
    if (!quiet) say(line);
  };
  options.detail = whisper;
  options.cancel = &interrupted();
  return fetch_model(name, options);
}

DescribedModel ready_model(const std::string& text, bool quiet) {
  std::error_code failed;
  const std::string name = name_behind(text);
  bool is_here = std::filesystem::exists(text, failed);
  for (const std::string& word : {text, name})
    is_here = is_here || std::filesystem::exists(std::filesystem::path(models_folder()) / word, failed);
  const std::vector<ModelEntry> models = list_models();
  const bool known =
      std::any_of(models.begin(), models.end(), [&](const ModelEntry& model) { return model.name == name; });
  DescribedModel described = open_model(known && !is_here ? fetch(name, "", quiet) : text);
  if (lacks_manifest(described)) say_lacking(described, text);
  return described;
}

}  // namespace gyrus::cli
