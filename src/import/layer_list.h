#pragma once
#include <string>

#include "import/json.h"
#include "import/network.h"

namespace gyrus {

// Whether a document is a MeshNet layer list: an object with a list "layers" of objects with a kernel_size.
bool is_layer_list(const Json& json);

// The network of a MeshNet layer list and a state dict. Every layer but the last is conv, norm (if "bnorm"),
// activation; the last is conv alone. Names must follow one of torch's two patterns, PREFIX.LAYER.0.weight (a
// Sequential of blocks) or PREFIX.INDEX.weight with a constant step (one flat Sequential); nothing may be missing or
// left over. Channels come from the weights: where the list holds a -1 it is a template and its other channel numbers
// mean nothing either; without one they must agree. Throws InvalidModel or Unsupported.
Network read_layer_list(const Json& json, const std::string& json_subject, const StateDict& weights,
                        const std::string& weights_subject);

}  // namespace gyrus
