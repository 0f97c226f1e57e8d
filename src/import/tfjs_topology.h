#pragma once
#include <string>
#include <vector>

#include "import/json.h"

namespace gyrus {

// A layer of the Keras model and the layers whose results it reads.
struct KerasLayer {
  std::string name, class_name;
  JsonObject config;
  std::vector<std::string> inputs;
};

// A Keras model of one input and one output.
struct Topology {
  std::vector<KerasLayer> layers;  // each behind those it reads
  std::string output;
};

// The layers of a tfjs layers model, Functional or Sequential; the document must outlive them. Throws InvalidModel, or
// Unsupported for graph models, several inputs or outputs, layers used twice and Keras 3.
Topology read_tfjs_topology(const Json& document, const std::string& subject);

// Throws Unsupported, naming the layer and its class.
[[noreturn]] void unsupported(const KerasLayer& layer, const std::string& what);

}  // namespace gyrus
