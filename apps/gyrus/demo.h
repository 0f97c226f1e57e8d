#pragma once
#include <cstdint>

#include "import/model.h"

namespace gyrus::cli {

// The built-in network for phantoms (demo_model.h) as any other model, for heads that fill `size` voxels a side.
Model demo_model(int64_t size);

}  // namespace gyrus::cli
