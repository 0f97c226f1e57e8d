#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// The models of this machine, as `gyrus web` offers them to its page.

namespace gyrus::cli {

struct WebFile {
  std::string name;
  uint64_t bytes = 0;
};

struct WebModel {
  std::string name, title, description, licence, citation;
  int64_t classes = 0, parameters = 0;
  std::vector<std::string> labels;  // without the background
  std::filesystem::path folder;
  std::vector<WebFile> files;  // those that an importer may want, by name

  const WebFile* find(const std::string& file) const;
};

// Those in `folders` (each a model's, or one that holds such folders), then those of models_folder(); of two with one
// name the first. What cannot be read is left out, and said so. Throws Io where a folder is none.
std::vector<WebModel> local_models(const std::vector<std::string>& folders);

// {"models": [{"name", "title", "description", "licence", "citation", "classes", "labels", "parameters", "bytes",
// "path": "NAME/" (escaped), "files": [{"name", "bytes"}]}]}
std::string models_index(const std::vector<WebModel>& models);

}  // namespace gyrus::cli
