// The entry points of a network in its file: its ports, what is bound, its graph for the shapes of inputs.

#include "import/json.h"
#include "network.h"

namespace gyrus {
namespace {

Json value_json(const onnx::ValueProto& value) {
  Json dims = Json::array();
  for (const onnx::Dim& dim : value.dims)
    dims.push_back(dim.extent >= 0 ? Json(dim.extent) : dim.name.empty() ? Json() : Json(dim.name));
  Json dtype;
  try {
    dtype = to_string(onnx::stored_as(value.type, value.name));
  } catch (const Error&) {
    // None that gyrus has; planning says so.
  }
  return {{"name", value.name},
          {"type", value.is_tensor ? onnx::to_string(value.type) : value.kind},
          {"dtype", dtype},
          {"dims", value.has_shape ? dims : Json()}};
}

Json declared_json(const OpenNetwork& network) {
  Json inputs = Json::array(), outputs = Json::array();
  if (network.onnx) {
    const onnx::GraphProto& graph = network.onnx->graph;
    for (const onnx::DeclaredInput& input : onnx::declared_inputs(*network.onnx))
      for (const onnx::ValueProto& value : graph.inputs)
        if (value.name == input.name) inputs.push_back(value_json(value));
    for (const onnx::ValueProto& value : graph.outputs) outputs.push_back(value_json(value));
  } else {
    const auto port = [&](const char* name, int64_t channels) {
      Json dims = {1, channels};
      for (int axis = 0; axis < network.model.spatial_rank; ++axis) dims.push_back(nullptr);
      return Json{{"name", name}, {"type", "float"}, {"dtype", "f32"}, {"dims", dims}};
    };
    inputs.push_back(port("image", network.model.input_channels));
    outputs.push_back(port("logits", network.model.classes));
  }
  return {{"inputs", inputs}, {"outputs", outputs}};
}

}  // namespace

Graph graph_for(const OpenNetwork& network, const Json& request) {
  const Shapes shapes = request.at("shapes").get<Shapes>();
  const Json& captures = request.at("captures");
  const bool all = captures.is_boolean() && captures.get<bool>();
  if (!network.onnx) {
    if (all || (captures.is_array() && !captures.empty()) || !network.bound.empty())
      fail(ErrorCode::Unsupported, network.model.name, "captures and bound inputs are for ONNX models");
    return model_graph(network.model, shapes);
  }
  onnx::ImportOptions options = import_options(network, shapes);
  options.capture_all = all;
  if (captures.is_array()) options.captures = captures.get<std::vector<std::string>>();
  return onnx::import_model(*network.onnx, options).graph;
}

}  // namespace gyrus

using namespace gyrus;

// Takes the files over, in any case.
GYRUS_EXPORT OpenNetwork* gyrus_network_open(ModelFiles* files) {
  const std::unique_ptr<ModelFiles> given(files);
  return guarded([&] { return open_network(std::move(*given)).release(); });
}
GYRUS_EXPORT void gyrus_network_close(OpenNetwork* network) { delete network; }

// Text: inputs and outputs as the file declares them.
GYRUS_EXPORT int gyrus_network_info(const OpenNetwork* network) {
  return guarded([&] {
    answer.text = dump(declared_json(*network));
    return 1;
  });
}

// Makes an input a constant of every plan to come. `type`: dtype and shape. Copies the bytes.
GYRUS_EXPORT int gyrus_network_bind(OpenNetwork* network, const char* name, const char* type, const std::byte* bytes,
                                    size_t size) {
  return guarded([&] {
    const Json json = Json::parse(type);
    Tensor tensor(read_dtype(json.at("dtype"), name), json.at("shape").get<Shape>());
    if (tensor.data.size() != size)
      fail(ErrorCode::InvalidInput, name, "has ", size, " bytes, ", to_string(tensor.dtype), to_string(tensor.shape),
           " has ", tensor.data.size());
    std::copy(bytes, bytes + size, tensor.data.begin());
    network->bound[name] = std::move(tensor);
    return 1;
  });
}
