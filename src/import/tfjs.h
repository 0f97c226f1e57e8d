#pragma once
#include <string>

#include "import/network.h"
#include "import/tfjs_weights.h"

namespace gyrus {

// Whether a document is a tfjs model: an object with a modelTopology.
bool is_tfjs(const Json& json);

// The network of a tfjs layers model: a Keras Functional or Sequential model of one input and one output. Channels go
// from last to second, kernels from [k…, in, out] to [out, in, k…]. The extents of the file's input are not kept: the
// network takes any. A layer that gyrus does not know is Unsupported; weights must match the layers exactly.
Network read_tfjs(const Json& json, const FileMap& files, const std::string& fallback, const std::string& subject);

}  // namespace gyrus
