#pragma once
#include <string>

#include "engine/manifest.h"

namespace gyrus::cli {

// The model's manifest from what lies in its folder.
Manifest manifest_of(const Model& model);

// Where models are found by name: $GYRUS_MODELS, else gyrus/models in the user's cache.
std::string models_folder();

// A model by the user's word for it: a path, or the name of one in the cache. Throws Io where there is neither.
std::string resolve_model(const std::string& text);

}  // namespace gyrus::cli
