#pragma once
#include <string>

#include "import/model.h"
#include "volume/labels.h"
#include "volume/normalize.h"

namespace gyrus::cli {

// What a model needs beside its weights: how scans are prepared for it and what its classes mean.
struct Manifest {
  std::string name, title, description;
  NormalizeOptions normalize;
  LabelTable labels;
  bool largest_component = false;  // of each class; the rest is noise
  bool fill_holes = false;
  std::string licence, citation;
};

// From gyrus.json in the model's folder (docs/models.md), else what is known of the brainchop models by their names,
// else min–max. Labels without names or colours there come from a colour map in the folder. Throws InvalidModel.
Manifest manifest_of(const Model& model);

// What a brainchop model is for and how it may be used, by its name; empty for others.
struct KnownModel {
  std::string title, licence;
};
KnownModel known_model(const std::string& name);

// As parse_normalize reads it: "quantile:0.02,0.98".
std::string normalize_text(const NormalizeOptions& options);

// Where models are found by name: $GYRUS_MODELS, else gyrus/models in the user's cache.
std::string models_folder();

// A model by the user's word for it: a path, or the name of one in the cache. Throws Io where there is neither.
std::string resolve_model(const std::string& text);

}  // namespace gyrus::cli
