#include "engine/manifest.h"

#include <algorithm>

#include "core/error.h"
#include "engine/known_models.h"
#include "engine/manifest_file.h"
#include "volume/conform.h"

namespace gyrus {
namespace {

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
  size_t i = 0;
  for (size_t at = 0; at < names.size() && i < table.entries.size(); ++i) {
    const size_t comma = std::min(names.find(',', at), names.size());
    table.entries[i].name = names.substr(at, comma - at);
    at = comma + 1;
  }
  return table;
}

Manifest parse_manifest(const std::string& text, const std::string& file, Manifest manifest) {
  const ManifestFile json(text, file);
  json.check_keys(/*onnx=*/false);
  json.read_common(manifest);
  const std::string normalize = json.text("normalize");
  if (!normalize.empty()) manifest.normalize = parse_normalize(normalize);
  if (manifest.normalize.kind > NormalizeKind::Quantile)
    json.refuse(cat("\"normalize\": \"", normalize, "\" is for ONNX models; here none, minmax and quantile are known"));
  return manifest;
}

}  // namespace

LabelTable labels_of(const Model& model, const SideFiles& files) {
  LabelTable table = colormap_of(model, files);
  return table.entries.empty() ? default_labels(model.classes) : table;
}

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

std::optional<Volume> network_volume(const Volume& scan, const Manifest& manifest) {
  if (manifest.conform) return is_conformed(scan) ? std::nullopt : std::optional(conform(scan).volume);
  const Volume grid = grid_for(scan, manifest.grid);
  return same_grid(scan, grid) ? std::nullopt : std::optional(resampled(scan, grid));
}

}  // namespace gyrus
