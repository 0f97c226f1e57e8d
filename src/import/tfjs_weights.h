#pragma once
#include <map>
#include <string>
#include <vector>

#include "import/json.h"
#include "import/state_dict.h"

namespace gyrus {

using FileMap = std::map<std::string, std::vector<std::byte>>;

// The weights that a tfjs weightsManifest lists, from the shards it names or, where none of those is there, from the
// one file `fallback` that holds them all in order. Quantised weights (uint8, uint16, float16) are made f32. Throws
// InvalidModel or Unsupported.
StateDict read_tfjs_weights(const Json& manifest, const FileMap& files, const std::string& fallback,
                            const std::string& subject);

}  // namespace gyrus
