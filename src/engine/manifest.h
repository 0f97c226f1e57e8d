#pragma once
#include <map>
#include <string>
#include <vector>

#include "import/model.h"
#include "volume/labels.h"
#include "volume/normalize.h"

namespace gyrus {

// What a model needs beside its weights: how scans are prepared for it and what its classes mean.
struct Manifest {
  std::string name, title, description;
  NormalizeOptions normalize;
  LabelTable labels;
  bool largest_component = false;  // of each class; the rest is noise
  bool fill_holes = false;
  bool allow_empty = false;  // a result without any label is one
  std::string licence, citation;
  std::vector<std::string> notices;  // what had to be assumed; one line each
};

// A model and what it needs.
struct DescribedModel {
  Model model;
  Manifest manifest;
};

// Files of the model's folder by name.
using SideFiles = std::map<std::string, std::vector<std::byte>>;

inline constexpr const char* kManifestName = "gyrus.json";
// Whether manifest_of reads a file of that name: gyrus.json and colormap*.json.
bool is_side_file(const std::string& name);

// From gyrus.json (docs/models.md), else what is known of the model by its weights (known_models.h), else min–max.
// Labels without names or colours there come from a colour map. Throws InvalidModel.
Manifest manifest_of(const Model& model, const SideFiles& files);
// The same with what lies in the model's folder. Not part of the WASM build.
Manifest manifest_of(const Model& model);

// As parse_normalize reads it: "quantile:0.02,0.98".
std::string normalize_text(const NormalizeOptions& options);

}  // namespace gyrus
