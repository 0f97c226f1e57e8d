#include "engine/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "engine/known_models.h"

namespace gyrus {
namespace {

using Json = nlohmann::json;

std::string path_in(const Model& model, const std::string& name) {
  const bool has_slash = model.path.empty() || model.path.back() == '/';
  return has_slash ? model.path + name : model.path + "/" + name;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_colormap(const std::string& name) { return name.starts_with("colormap") && name.ends_with(".json"); }

// The first colour map among the files with one entry for each class.
LabelTable colormap_of(const Model& model, const SideFiles& files) {
  for (const auto& [name, bytes] : files) {
    if (!is_colormap(name)) continue;
    LabelTable table = parse_colormap(text_of(bytes), path_in(model, name));
    if (static_cast<int64_t>(table.entries.size()) == model.classes) return table;
  }
  return {};
}

LabelTable named_labels(const std::string& names, int64_t classes) {
  LabelTable table = default_labels(classes);
  std::istringstream in(names);
  size_t i = 0;
  for (std::string name; std::getline(in, name, ',') && i < table.entries.size(); ++i) table.entries[i].name = name;
  return table;
}

std::string text_of(const Json& root, const char* key, const std::string& file) {
  const auto found = root.find(key);
  if (found == root.end()) return {};
  if (!found->is_string()) fail(ErrorCode::InvalidModel, file, "\"", key, "\" is no text");
  return found->get<std::string>();
}

bool flag_of(const Json& root, const char* key, const std::string& file) {
  const auto found = root.find(key);
  if (found == root.end()) return false;
  if (!found->is_boolean()) fail(ErrorCode::InvalidModel, file, "\"", key, "\" is neither true nor false");
  return found->get<bool>();
}

void read_labels(const Json& labels, const std::string& file, LabelTable& table) {
  if (!labels.is_array() || labels.size() != table.entries.size())
    fail(ErrorCode::InvalidModel, file, "\"labels\" is no list of ", table.entries.size(),
         " names, one for each class");
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!labels[i].is_string()) fail(ErrorCode::InvalidModel, file, "label ", i, " is no text");
    table.entries[i].name = labels[i].get<std::string>();
  }
}

Manifest parse_manifest(const std::string& text, const std::string& file, Manifest manifest) {
  const Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) fail(ErrorCode::InvalidModel, file, "is no JSON object");
  static constexpr const char* kKeys[] = {"title",      "description", "normalize", "labels",  "components",
                                          "fill_holes", "allow_empty", "licence",   "citation"};
  for (const auto& [key, value] : root.items())
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys))
      fail(ErrorCode::InvalidModel, file, "\"", key, "\" is no entry of a manifest; docs/models.md lists them");
  manifest.title = text_of(root, "title", file);
  manifest.description = text_of(root, "description", file);
  manifest.licence = text_of(root, "licence", file);
  manifest.citation = text_of(root, "citation", file);
  const std::string normalize = text_of(root, "normalize", file);
  if (!normalize.empty()) manifest.normalize = parse_normalize(normalize);
  const std::string components = text_of(root, "components", file);
  if (!components.empty() && components != "keep" && components != "largest")
    fail(ErrorCode::InvalidModel, file, "\"components\" is neither \"keep\" nor \"largest\"");
  manifest.largest_component = components == "largest";
  manifest.fill_holes = flag_of(root, "fill_holes", file);
  manifest.allow_empty = flag_of(root, "allow_empty", file);
  if (root.contains("labels")) read_labels(root["labels"], file, manifest.labels);
  return manifest;
}

}  // namespace

bool is_side_file(const std::string& name) { return name == kManifestName || is_colormap(name); }

Manifest manifest_of(const Model& model, const SideFiles& files) {
  Manifest manifest;
  manifest.name = model.name;
  manifest.labels = colormap_of(model, files);
  const bool has_colormap = !manifest.labels.entries.empty();
  if (!has_colormap) manifest.labels = default_labels(model.classes);
  if (const auto own = files.find(kManifestName); own != files.end())
    return parse_manifest(text_of(own->second), path_in(model, kManifestName), manifest);
  if (const KnownModel* known = recognise(model)) {
    manifest.title = known->title;
    manifest.normalize = parse_normalize(known->normalize);
    if (!has_colormap) manifest.labels = named_labels(known->class_names, model.classes);
    manifest.largest_component = known->largest_component;
    manifest.licence = kKnownLicence;
    manifest.citation = citation_of(*known);
    return manifest;
  }
  for (const KnownModel& known : known_models())
    if (model.name == known.name)
      manifest.notices.push_back(cat("the weights are not those of the known model ", known.name,
                                     ": intensities are normalised by ", normalize_text(manifest.normalize),
                                     " unless a ", kManifestName, " in the folder says otherwise"));
  return manifest;
}

std::string normalize_text(const NormalizeOptions& options) {
  switch (options.kind) {
    case NormalizeKind::None: return "none";
    case NormalizeKind::MinMax: return "minmax";
    case NormalizeKind::Quantile: break;
  }
  return cat("quantile:", options.low, ",", options.high);
}

}  // namespace gyrus
