#include "engine/network.h"

#include <map>

#include "core/error.h"

namespace gyrus {
namespace {

// Appends all nodes of `from` to `to`; its only input is `image`. Returns the value that is its only output.
ValueId append(Graph& to, const Graph& from, ValueId image) {
  std::map<ValueId, ValueId> map;
  map[from.inputs().at(0).value] = image;
  const auto mapped = [&](ValueId id) {
    const auto known = map.find(id);
    if (known != map.end()) return known->second;
    return map[id] = to.add_constant(from.value(id).name, from.value(id).constant);
  };
  for (const Node& node : from.nodes()) {
    Node copy = node;
    for (ValueId& id : copy.inputs) id = mapped(id);
    const std::vector<ValueId> outputs = to.add_node(std::move(copy));
    for (size_t i = 0; i < outputs.size(); ++i) map[node.outputs[i]] = outputs[i];
  }
  return mapped(from.outputs().at(0).value);
}

}  // namespace

Graph network_graph(const Model& model, const Shape& spatial, const NetworkOptions& options) {
  const Graph network = model.build(spatial);
  Graph graph;
  Shape shape = {1, model.input_channels};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  ValueId x = graph.add_input("image", {options.input, shape});
  const ValueId scale = graph.add_input("scale", {DType::F32, {1}});
  const ValueId shift = graph.add_input("shift", {DType::F32, {1}});
  if (options.input != DType::F32) x = graph.add("cast", {x}, {{"to", std::string("f32")}}, "normalize");
  x = graph.add("add", {graph.add("mul", {x, scale}, {}, "normalize"), shift}, {}, "normalize");
  if (options.clamp) x = graph.add("affine_clamp", {x}, {{"lo", 0.0}, {"hi", 1.0}}, "normalize");
  const ValueId logits = append(graph, network, x);
  if (options.output == NetworkOutput::Logits) {
    graph.add_output("logits", logits);
    return graph;
  }
  if (options.output == NetworkOutput::Probabilities) {
    const bool is_softmax = !network.nodes().empty() && network.nodes().back().op == "softmax";
    graph.add_output("probabilities",
                     is_softmax ? logits : graph.add("softmax", {logits}, {{"axis", int64_t{1}}}, "softmax"));
  }
  const std::string dtype = model.classes <= 256 ? "u8" : "u32";
  graph.add_output("labels", graph.add("argmax", {logits}, {{"axis", int64_t{1}}, {"dtype", dtype}}, "argmax"));
  return graph;
}

NetworkOptions network_options(const Volume& volume, const NormalizeOptions& normalize, NetworkOutput output) {
  NetworkOptions options;
  options.input = volume.type == VoxelType::U8 && !volume.is_scaled() ? DType::U8 : DType::F32;
  options.clamp = normalize.kind != NormalizeKind::None;
  options.output = output;
  return options;
}

Shape spatial_shape(const Model& model, const Volume& volume) {
  if (model.spatial_rank != 3 || model.input_channels != 1)
    fail(ErrorCode::Unsupported, model.name, "takes ", model.input_channels, " channels in ", model.spatial_rank,
         " dimensions; segmentation needs one channel in three");
  return {volume.dims[0], volume.dims[1], volume.dims[2]};
}

}  // namespace gyrus
