#include "model_fetch.h"

#include <filesystem>

#include "common.h"
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
  const bool is_here = std::filesystem::exists(text, failed) ||
                       std::filesystem::exists(std::filesystem::path(models_folder()) / text, failed);
  return open_model(text == kDefaultModel && !is_here ? fetch(text, "", quiet) : text);
}

}  // namespace gyrus::cli
