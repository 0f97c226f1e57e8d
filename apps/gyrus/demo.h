#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/manifest.h"

namespace gyrus::cli {

// The built-in network for phantoms (demo_model.h) as any other model, for heads that fill `size` voxels a side.
Model demo_model(int64_t size);

// How it is used.
Manifest demo_manifest();

// The same as the files of a model, in a folder that is there; returns their paths.
std::vector<std::string> write_demo_model(const std::string& folder, int64_t size);

}  // namespace gyrus::cli
