#pragma once
#include <string>
#include <vector>

#include "engine/manifest.h"

namespace gyrus::cli {

// The built-in network for phantoms, which gyrus train made from demo_train.json, as any other model.
DescribedModel demo_model();

// The same as the files of a model, in a folder that is there; returns their paths.
std::vector<std::string> write_demo_model(const std::string& folder);

}  // namespace gyrus::cli
