#include "engine/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "graph/append.h"
#include "gyrus/ops.h"

namespace gyrus {
namespace {

constexpr float kLeastWeight = 1e-3f;  // MONAI's, so that corners which only one window covers keep their digits

Shape with_channels(int64_t channels, const Shape& extents) {
  Shape shape = {1, channels};
  shape.insert(shape.end(), extents.begin(), extents.end());
  return shape;
}

Shape round_up(Shape extents, int64_t multiple) {
  for (int64_t& extent : extents) extent = (extent + multiple - 1) / multiple * multiple;
  return extents;
}

Value numbers(Graph& graph, DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, static_cast<double>(i));
  return graph.constant(std::move(tensor));
}

// The part of x [1, C, extents…] that begins at these places; axes that are whole are left alone.
Value taken(Graph& graph, Value x, size_t axis, int64_t length, Value at) {
  if (x.shape()[axis + 2] == length) return x;
  return gather(x, numbers(graph, DType::I32, {length}) + at, static_cast<int64_t>(axis + 2));
}

Value put(Value x, Value part, size_t axis, Value at) {
  if (x.shape() == part.shape()) return part;
  return update_slice(x, part, static_cast<int64_t>(axis + 2), at);
}

// sum with `part` added from the places on. Slices along one axis after another, so that each is put back by the op
// that writes in place.
Value added(Graph& graph, Value sum, Value part, const std::array<Value, 3>& at) {
  const Shape shape = part.shape();
  std::array<Value, 4> slices = {sum};
  for (size_t axis = 0; axis < 3; ++axis)
    slices[axis + 1] = taken(graph, slices[axis], axis, shape[axis + 2], at[axis]);
  Value changed = slices[3] + part;
  for (size_t axis = 3; axis-- > 0;) changed = put(slices[axis], changed, axis, at[axis]);
  return changed;
}

bool is_regions(Scores scores) { return scores == Scores::Sigmoid || scores == Scores::Sigmoided; }

// The network's result on [1, C, patch…] as f32 scores [1, K, patch…].
Value scores_of(Graph& graph, const OnnxVolumes& onnx, const std::string& subject, int64_t classes, Value image) {
  const Shape shape = image.shape();
  const PatchScores part = patch_network(onnx, subject, shape[1], Shape(shape.begin() + 2, shape.end()));
  if (onnx.input_type != DType::F32) image = cast(image, onnx.input_type);
  Value scores(graph, append_graph(graph, part.graph, {image.id()}).at(0));
  if (scores.dtype() != DType::F32) scores = cast(scores, DType::F32);
  if (onnx.scores != Scores::Labels) return scores;
  // A vote for the label.
  const Value votes = equal(reshape(scores, with_channels(1, Shape(shape.begin() + 2, shape.end()))),
                            numbers(graph, DType::F32, {1, classes, 1, 1, 1}));
  return cast(votes, DType::F32);
}

Value cropped(Value x, int64_t first, int64_t last, const Padded& padded, const Shape& spatial) {
  std::vector<int64_t> starts = {0, first}, ends = {1, last};
  for (size_t i = 0; i < 3; ++i) {
    starts.push_back(padded.before[i]);
    ends.push_back(padded.before[i] + spatial[i]);
  }
  return x.shape() == with_channels(last - first, spatial) && first == 0 ? x : slice(x, starts, ends);
}

// The label of the last region that is there, 0 without one; and the probability of each, of none of them first.
struct Found {
  Value labels, probabilities;
};
Found regions(Graph& graph, const OnnxVolumes& onnx, Value scores, DType type) {
  const Value p = onnx.scores == Scores::Sigmoid ? sigmoid(scores) : scores;
  const Value there = cast(greater(p, scalar(p, onnx.threshold)), DType::F32);
  const Value numbered = there * (numbers(graph, DType::F32, {1, p.shape()[1], 1, 1, 1}) + 1.0);
  return {cast(reduce_max(numbered, {{1}}), type), concat({1.0 - reduce_max(p, {{1}, true}), p}, 1)};
}

void add_outputs(Graph& graph, const Model& model, Value scores, Value weights, NetworkOutput output) {
  const OnnxVolumes& onnx = *model.onnx;
  const DType type = model.classes <= 256 ? DType::U8 : DType::U32;
  // The largest of several sums is that of the means.
  const bool means = weights && (is_regions(onnx.scores) || output == NetworkOutput::Probabilities);
  const Value mean = means ? scores / weights : scores;
  Found found;
  if (is_regions(onnx.scores)) {
    found = regions(graph, onnx, mean, type);
  } else {
    found.labels = argmax(scores, 1, false, type);
    if (output == NetworkOutput::Probabilities)
      found.probabilities = onnx.scores == Scores::Logits ? softmax(mean, 1) : mean;
  }
  if (output == NetworkOutput::Probabilities) graph.output("probabilities", found.probabilities);
  graph.output("labels", found.labels);
}

Graph whole_graph(const Model& model, const Shape& spatial, const Padded& padded, NetworkOutput output) {
  Graph graph;
  const Value image = graph.input("image", DType::F32, with_channels(model.input_channels, padded.extents));
  const Value scores = scores_of(graph, *model.onnx, model.name, model.classes, image);
  add_outputs(graph, model, cropped(scores, 0, scores.shape()[1], padded, spatial), {}, output);
  return without_dead_nodes(graph);
}

Graph one_window(const Model& model, const Shape& patch, const Shape& extents) {
  Graph graph;
  const OnnxVolumes& onnx = *model.onnx;
  const Value image = graph.state("image", DType::F32, with_channels(model.input_channels, extents));
  std::array<Value, 3> at;
  for (size_t i = 0; i < 3; ++i)
    at[i] = graph.argument("at" + std::to_string(i), DType::I32, 0, static_cast<double>(extents[i] - patch[i]));
  graph.set_label("window");
  Value part = image;
  for (size_t i = 0; i < 3; ++i) part = taken(graph, part, i, patch[i], at[i]);
  const Value scores = scores_of(graph, onnx, model.name, model.classes, part);
  graph.set_label("blend");
  const Value weights = graph.constant(window_weights(patch, onnx.blend, onnx.sigma, onnx.style));
  const Value weighted = concat({scores * weights, weights}, 1);
  const Value sum = graph.state("scores", DType::F32, with_channels(weighted.shape()[1], extents));
  graph.update(sum, added(graph, sum, weighted, at));
  return without_dead_nodes(graph);
}

Graph finish_graph(const Model& model, const Graph& window, const Shape& spatial, const Padded& padded,
                   NetworkOutput output) {
  Graph graph;
  Shape shape;
  for (const State& state : window.states())
    if (state.name == "scores") shape = window.type(state.value).shape;
  const Value sum = graph.state("scores", DType::F32, shape);
  graph.set_label("labels");
  const int64_t count = shape[1] - 1;
  add_outputs(graph, model, cropped(sum, 0, count, padded, spatial), cropped(sum, count, count + 1, padded, spatial),
              output);
  return without_dead_nodes(graph);
}

}  // namespace

std::vector<int64_t> window_starts(int64_t extent, int64_t patch, double overlap, WindowStyle style) {
  const double wanted = static_cast<double>(patch) * (1 - overlap), room = static_cast<double>(extent - patch);
  std::vector<int64_t> starts = {0};
  if (style == WindowStyle::NnUnet) {
    const double gaps = std::ceil(room / wanted);
    for (double i = 1; i <= gaps; ++i) starts.push_back(static_cast<int64_t>(std::nearbyint(room / gaps * i)));
    return starts;
  }
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(wanted));
  while (starts.back() + patch < extent) starts.push_back(std::min(starts.back() + step, extent - patch));
  return starts;
}

std::vector<Start> all_windows(const Shape& extents, const Shape& patch, const std::array<double, 3>& overlap,
                               WindowStyle style) {
  std::array<std::vector<int64_t>, 3> along;
  for (size_t i = 0; i < 3; ++i) along[i] = window_starts(extents[i], patch[i], overlap[i], style);
  std::vector<Start> starts;
  for (const int64_t a : along[0])
    for (const int64_t b : along[1])
      for (const int64_t c : along[2]) starts.push_back({a, b, c});
  return starts;
}

Tensor window_weights(const Shape& patch, Blend blend, double sigma, WindowStyle style) {
  Tensor weights(DType::F32, with_channels(1, patch));
  float* out = weights.as<float>();
  const bool monai = style == WindowStyle::Monai;
  std::array<std::vector<float>, 3> along;
  for (size_t i = 0; i < 3; ++i)
    for (int64_t k = 0; k < patch[i]; ++k) {
      const double centre =
          monai ? static_cast<double>(patch[i] - 1) / 2 : std::floor(static_cast<double>(patch[i]) / 2);
      const double x = static_cast<double>(k) - centre, s = sigma * static_cast<double>(patch[i]);
      along[i].push_back(blend == Blend::Constant ? 1 : static_cast<float>(std::exp(-x * x / (2 * s * s))));
    }
  const float least = monai ? kLeastWeight : std::numeric_limits<float>::min();
  for (const float a : along[0])
    for (const float b : along[1])
      for (const float c : along[2]) *out++ = std::max(a * b * c, least);
  return weights;
}

Padded padded_extents(const OnnxVolumes& onnx, const Shape& spatial) {
  Padded out{onnx.patch.empty() ? round_up(spatial, onnx.multiple) : spatial, {}};
  for (size_t i = 0; i < 3; ++i) {
    if (!onnx.patch.empty()) out.extents[i] = std::max(spatial[i], onnx.patch[i]);
    out.before[i] = (out.extents[i] - spatial[i]) / 2;
  }
  return out;
}

PatchScores patch_network(const OnnxVolumes& onnx, const std::string& subject, int64_t channels, const Shape& spatial) {
  onnx::ImportOptions options;
  options.subject = onnx.file.path;
  options.shapes = {{onnx.input, with_channels(channels, spatial)}};
  options.external = onnx.file.external;
  const onnx::Imported imported = onnx::import_model(onnx.file.model, options);
  PatchScores out;
  Shape found;
  for (const Port& port : imported.graph.outputs())
    if (port.name == onnx.output) found = imported.graph.type(port.value).shape;
  const bool flat = onnx.scores == Scores::Labels && found == Shape([&] {
                                                       Shape shape = with_channels(1, spatial);
                                                       shape.erase(shape.begin() + 1);
                                                       return shape;
                                                     }());
  const bool right = found.size() == 5 && found == with_channels(found[1], spatial);
  if (!flat && !right)
    fail(ErrorCode::InvalidModel, subject, "of an image ", to_string(with_channels(channels, spatial)),
         " its output \"", onnx.output, "\" is ", to_string(found),
         "; segmentation needs [1, classes] and the extents of the image");
  out.channels = flat ? 1 : found[1];
  // The other outputs go.
  Graph kept;
  const ValueId image = kept.add_input("image", imported.graph.type(imported.graph.inputs().at(0).value));
  const std::vector<ValueId> all = append_graph(kept, imported.graph, {image});
  for (size_t i = 0; i < all.size(); ++i)
    if (imported.graph.outputs()[i].name == onnx.output) kept.add_output("scores", all[i]);
  out.graph = without_dead_nodes(kept);
  return out;
}

WindowGraphs window_graphs(const Model& model, const Shape& spatial, NetworkOutput output) {
  const OnnxVolumes& onnx = *model.onnx;
  const Padded padded = padded_extents(onnx, spatial);
  const Shape& patch = onnx.patch.empty() ? padded.extents : onnx.patch;
  WindowGraphs out;
  out.starts = all_windows(padded.extents, patch, onnx.overlap, onnx.style);
  if (out.starts.size() == 1) {
    out.window = whole_graph(model, spatial, padded, output);
    return out;
  }
  out.window = one_window(model, patch, padded.extents);
  out.finish = finish_graph(model, out.window, spatial, padded, output);
  return out;
}

}  // namespace gyrus
