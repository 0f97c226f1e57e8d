#include "import/tfjs_topology.h"

#include <algorithm>
#include <set>

namespace gyrus {
namespace {

constexpr size_t kMostLayers = 4096;

KerasLayer read_layer(const Json& json, const std::string& subject, size_t index) {
  const JsonObject object(json, subject, cat("layers[", index, "]"));
  const JsonObject config = object.object("config");
  KerasLayer layer{object.text("name", config.text("name", "")), object.text("class_name"), config, {}};
  if (!is_good_name(layer.name)) object.bad("name", "a printable name");
  return layer;
}

// Keras 2 writes inbound_nodes as [[[layer, node, tensor, {}], …]]: one node for each time the layer is used.
void read_inbound(const JsonObject& object, KerasLayer& layer) {
  if (!object.has("inbound_nodes")) return;
  const Json& nodes = object.array("inbound_nodes");
  if (nodes.empty()) return;
  if (nodes.size() > 1) unsupported(layer, "is used more than once");
  if (!nodes[0].is_array()) unsupported(layer, "inbound_nodes are written as Keras 3 does; convert it with Keras 2");
  for (const Json& source : nodes[0]) {
    const bool good = source.is_array() && source.size() >= 3 && source[0].is_string() &&
                      source[1].is_number_integer() && source[2].is_number_integer();
    if (!good) object.bad("inbound_nodes", "a list of [layer, node, tensor]");
    if (source[1] != 0 || source[2] != 0) unsupported(layer, "reads another than the first result of a layer");
    layer.inputs.push_back(source[0].get<std::string>());
  }
}

std::string single_port(const JsonObject& config, const std::string& key) {
  const Json& ports = config.array(key);
  // One port may be written without the outer list.
  const Json& port = ports.size() == 1 && ports[0].is_array() ? ports[0] : ports;
  if (port.size() != 3 || !port[0].is_string()) {
    fail(ErrorCode::Unsupported, config.subject(), in_quotes(key),
         " is not one tensor; models of several are not read");
  }
  return port[0].get<std::string>();
}

// Brings the layers into an order in which each stands behind those it reads.
std::vector<KerasLayer> sorted(std::vector<KerasLayer> layers, const std::string& subject) {
  std::vector<KerasLayer> out;
  std::set<std::string> done;
  while (!layers.empty()) {
    std::vector<KerasLayer> waiting;
    for (KerasLayer& layer : layers) {
      const bool ready = std::all_of(layer.inputs.begin(), layer.inputs.end(),
                                     [&](const std::string& input) { return done.count(input) != 0; });
      if (ready && !done.insert(layer.name).second) {
        fail(ErrorCode::InvalidModel, subject, "two layers are named ", in_quotes(layer.name));
      }
      (ready ? out : waiting).push_back(std::move(layer));
    }
    if (waiting.size() == layers.size()) {
      fail(ErrorCode::InvalidModel, subject, "layer ", in_quotes(waiting[0].name),
           " reads a layer that is missing or reads it back");
    }
    layers = std::move(waiting);
  }
  return out;
}

// The layers in a row, with an InputLayer made from the first one's shape where there is none.
Topology read_sequential(const Json& layers, const std::string& subject) {
  Topology topology;
  for (size_t i = 0; i < layers.size(); ++i) {
    KerasLayer layer = read_layer(layers[i], subject, i);
    if (i == 0 && layer.class_name != "InputLayer") {
      topology.layers.push_back({"image of " + layer.name, "InputLayer", layer.config, {}});
    }
    if (!topology.layers.empty()) layer.inputs = {topology.layers.back().name};
    topology.output = layer.name;
    topology.layers.push_back(std::move(layer));
  }
  return {sorted(std::move(topology.layers), subject), topology.output};
}

Topology read_functional(const JsonObject& config) {
  const Json& json = config.array("layers");
  std::vector<KerasLayer> layers;
  for (size_t i = 0; i < json.size(); ++i) {
    layers.push_back(read_layer(json[i], config.subject(), i));
    read_inbound(JsonObject(json[i], config.subject(), cat("layers[", i, "]")), layers.back());
  }
  const std::string input = single_port(config, "input_layers");
  for (const KerasLayer& layer : layers) {
    if (layer.class_name == "InputLayer" && layer.name != input) unsupported(layer, "is a second input");
  }
  return {sorted(std::move(layers), config.subject()), single_port(config, "output_layers")};
}

}  // namespace

void unsupported(const KerasLayer& layer, const std::string& what) {
  fail(ErrorCode::Unsupported, layer.config.subject(), "layer ", in_quotes(layer.name), " of class ",
       in_quotes(layer.class_name), ": ", what);
}

Topology read_tfjs_topology(const Json& json, const std::string& subject) {
  const JsonObject document(json, subject, "");
  const JsonObject topology = document.object("modelTopology");
  if (document.text("format", "") == "graph-model" || topology.has("node")) {
    fail(ErrorCode::Unsupported, subject,
         "a tfjs graph model (a frozen TensorFlow graph); convert the Keras model with ",
         "--output_format=tfjs_layers_model");
  }
  const JsonObject model = topology.has("model_config") ? topology.object("model_config") : topology;
  const std::string class_name = model.text("class_name");
  const bool is_list = model.has("config") && model.at("config").is_array();  // early Sequential models
  const Json& layers = is_list ? model.at("config") : model.object("config").array("layers");
  if (layers.empty() || layers.size() > kMostLayers) {
    fail(ErrorCode::InvalidModel, subject, "a model of ", layers.size(), " layers; 1 to ", kMostLayers,
         " are possible");
  }
  if (class_name == "Sequential") return read_sequential(layers, subject);
  if (!is_list && (class_name == "Functional" || class_name == "Model")) return read_functional(model.object("config"));
  fail(ErrorCode::Unsupported, subject, "model class ", in_quotes(class_name), "; Functional and Sequential are read");
}

}  // namespace gyrus
