#include "web_models.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common.h"
#include "core/error.h"
#include "engine/model_store.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

// As the importer chooses (docs/models.md).
bool is_model_file(const fs::path& path) {
  static constexpr const char* kSuffixes[] = {"", ".json", ".pth", ".pt", ".ckpt", ".bin", ".safetensors"};
  std::error_code failed;
  return path.filename().string()[0] != '.' && fs::is_regular_file(path, failed) &&
         std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                     [&](const char* suffix) { return path.extension() == suffix; });
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    entries.push_back(at->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool holds_model(const fs::path& folder) {
  const std::vector<fs::path> entries = sorted_entries(folder);
  return std::any_of(entries.begin(), entries.end(),
                     [](const fs::path& path) { return path.extension() == ".json" && is_model_file(path); });
}

void add_model(const fs::path& folder, std::vector<WebModel>& models) {
  try {
    const auto [model, manifest] = open_model(folder.string());
    if (model.onnx)
      return whisper(cat("[", folder.string(), "] left out: an ONNX network, and the page takes models of layers"));
    const std::string& name = model.name;
    if (std::any_of(models.begin(), models.end(), [&](const WebModel& m) { return m.name == name; }))
      return whisper(cat("[", folder.string(), "] left out: another model has the same name"));
    WebModel entry{model.name,
                   manifest.title,
                   manifest.description,
                   manifest.licence,
                   manifest.citation,
                   model.classes,
                   model.parameters,
                   {},
                   folder,
                   {}};
    for (const LabelEntry& label : manifest.labels.entries)
      if (label.value != 0) entry.labels.push_back(label.name);
    for (const fs::path& path : sorted_entries(folder))
      if (is_model_file(path)) entry.files.push_back({path.filename().string(), fs::file_size(path)});
    models.push_back(entry);
  } catch (const Error& error) {
    say(cat(error.what(), "; left out"));
  }
}

void add_models_of(const fs::path& folder, std::vector<WebModel>& models) {
  if (holds_model(folder)) return add_model(folder, models);
  std::error_code failed;
  for (const fs::path& below : sorted_entries(folder))
    if (below.filename().string()[0] != '.' && fs::is_directory(below, failed) && holds_model(below))
      add_model(below, models);
}

// As a part of an address.
std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : name) {
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    if (std::isalnum(static_cast<unsigned char>(c)) || std::strchr("-._~", c))
      out += c;
    else
      out += code;
  }
  return out;
}

}  // namespace

const WebFile* WebModel::find(const std::string& file) const {
  const auto at = std::find_if(files.begin(), files.end(), [&](const WebFile& f) { return f.name == file; });
  return at == files.end() ? nullptr : &*at;
}

std::vector<WebModel> local_models(const std::vector<std::string>& folders) {
  std::vector<WebModel> models;
  std::error_code failed;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(folder, failed)) fail(ErrorCode::Io, folder, "--models: is no folder");
    const size_t before = models.size();
    add_models_of(fs::canonical(folder), models);
    if (models.size() == before) say(cat("[", folder, "] holds no model that can be offered"));
  }
  add_models_of(models_folder(), models);
  return models;
}

std::string models_index(const std::vector<WebModel>& models) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const WebModel& model : models) {
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    uint64_t bytes = 0;
    for (const WebFile& file : model.files) {
      files.push_back({{"name", file.name}, {"bytes", file.bytes}});
      bytes += file.bytes;
    }
    list.push_back({{"name", model.name},
                    {"title", model.title},
                    {"description", model.description},
                    {"licence", model.licence},
                    {"citation", model.citation},
                    {"classes", model.classes},
                    {"labels", model.labels},
                    {"parameters", model.parameters},
                    {"bytes", bytes},
                    {"path", escaped(model.name) + "/"},
                    {"files", files}});
  }
  return nlohmann::ordered_json{{"models", list}}.dump(2, ' ', false,
                                                       nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace gyrus::cli
