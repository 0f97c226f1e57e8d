#include "engine/network.h"

#include "core/error.h"
#include "import/network.h"
#include "import/onnx_volume.h"

namespace gyrus {

Graph network_graph(const Model& model, const Shape& spatial, const NetworkOptions& options) {
  if (!model.network)
    fail(ErrorCode::Unsupported, model.name, "is an ONNX model; this is for models of layers (docs/models.md)");
  Graph graph;
  Shape shape = {1, model.input_channels};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  ValueId x = graph.add_input("image", {options.input, shape});
  const ValueId scale = graph.add_input("scale", {DType::F32, {1}});
  const ValueId shift = graph.add_input("shift", {DType::F32, {1}});
  if (options.input != DType::F32) x = graph.add("cast", {x}, {{"to", std::string("f32")}}, "normalize");
  x = graph.add("add", {graph.add("mul", {x, scale}, {}, "normalize"), shift}, {}, "normalize");
  if (options.clamp) x = graph.add("affine_clamp", {x}, {{"lo", 0.0}, {"hi", 1.0}}, "normalize");
  const ValueId logits = model.network->append_to(graph, x);
  if (options.output == NetworkOutput::Logits) {
    graph.add_output("logits", logits);
    return without_dead_nodes(graph);
  }
  if (options.output == NetworkOutput::Probabilities) {
    const Node& last = graph.nodes().back();
    const bool is_softmax = last.op == "softmax" && last.outputs[0] == logits;
    graph.add_output("probabilities",
                     is_softmax ? logits : graph.add("softmax", {logits}, {{"axis", int64_t{1}}}, "softmax"));
  }
  const std::string dtype = model.classes <= 256 ? "u8" : "u32";
  graph.add_output("labels", graph.add("argmax", {logits}, {{"axis", int64_t{1}}, {"dtype", dtype}}, "argmax"));
  return without_dead_nodes(graph);
}

NetworkOptions network_options(const Volume& volume, const NormalizeOptions& normalize, NetworkOutput output) {
  if (normalize.kind > NormalizeKind::Quantile)
    fail(ErrorCode::InvalidInput, normalize_text(normalize), "is a normalisation of ONNX models; ",
         "those of layers have none, minmax and quantile");
  NetworkOptions options;
  options.input = volume.type == VoxelType::U8 && !volume.is_scaled() ? DType::U8 : DType::F32;
  options.clamp = normalize.kind != NormalizeKind::None;
  options.output = output;
  return options;
}

Shape spatial_shape(const Model& model, const Volume& volume) {
  if (model.onnx && model.onnx->reversed) return {volume.dims[2], volume.dims[1], volume.dims[0]};
  if (!model.onnx && (model.spatial_rank != 3 || model.input_channels != 1))
    fail(ErrorCode::Unsupported, model.name, "takes ", model.input_channels, " channels in ", model.spatial_rank,
         " dimensions; segmentation needs one channel in three");
  return {volume.dims[0], volume.dims[1], volume.dims[2]};
}

}  // namespace gyrus
