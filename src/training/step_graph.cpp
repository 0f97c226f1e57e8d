#include "training/step_graph.h"

#include "core/error.h"
#include "core/tensor.h"
#include "gyrus/losses.h"
#include "training/built_network.h"

namespace gyrus {
namespace {

constexpr int64_t kAugmentStream = 1;

Value class_weights(Graph& graph, const LossTerm& term) {
  if (term.class_weights.empty()) return {};
  Tensor weights(DType::F32, {static_cast<int64_t>(term.class_weights.size())});
  for (size_t i = 0; i < term.class_weights.size(); ++i) set(weights, static_cast<int64_t>(i), term.class_weights[i]);
  return graph.constant(std::move(weights));
}

Value loss_of(const LossTerm& term, Value scores, Value target) {
  switch (term.kind) {
    case LossTerm::Kind::CrossEntropy:
      return cross_entropy(scores, target,
                           {.weight = class_weights(scores.graph(), term),
                            .ignore_index = term.ignore,
                            .label_smoothing = term.label_smoothing});
    case LossTerm::Kind::Dice: return dice(scores, target, term.dice);
    case LossTerm::Kind::Focal: break;
  }
  return focal(scores, target, {.gamma = term.gamma, .weight = class_weights(scores.graph(), term)});
}

// Places in LabelMap::values as classes.
Value classes_of(Value places, const LabelMap& labels) {
  Tensor table(DType::I32, {static_cast<int64_t>(labels.values.size())});
  for (size_t i = 0; i < labels.values.size(); ++i)
    table.as<int32_t>()[i] = static_cast<int32_t>(labels.class_of(labels.values[i]));
  return gather(places.graph().constant(std::move(table)), places, 0);
}

// Without `margin` voxels on either side of the last three axes.
Value inner(Value x, int64_t margin) {
  const Shape shape = x.shape();
  std::vector<int64_t> starts(shape.size(), 0), ends(shape.begin(), shape.end());
  for (size_t a = shape.size() - 3; a < shape.size(); ++a) {
    starts[a] = margin;
    ends[a] -= margin;
  }
  return margin > 0 ? slice(x, starts, ends) : x;
}

}  // namespace

Graph step_graph(const TrainConfig& config, const TrainNetwork& network, const LabelMap& labels,
                 const Shape& inner_extents) {
  Graph graph;
  const Shape extents = with_margin(config, inner_extents);
  const Shape spatial = {config.batch, extents[0], extents[1], extents[2]};
  Value image;
  if (!config.augment.synthesize)
    image = graph.input("image", DType::F32, {config.batch, 1, extents[0], extents[1], extents[2]});
  Value target = graph.input("labels", DType::U8, spatial);
  BuildOptions build;
  build.training = true;
  if (is_random(config)) build.key = graph.input("key", DType::I32, {2});
  if (config.augmented) {
    graph.set_label("augment");
    AugmentOptions options = config.augment;
    options.labels = static_cast<int64_t>(labels.values.size());
    const Augmented made = augment(image, cast(target, DType::I32), build.key, kAugmentStream, options);
    image = made.image;
    target = config.augment.synthesize ? classes_of(made.labels, labels) : made.labels;
  }
  image = inner(image, config.data.margin);
  target = inner(target, config.data.margin);
  graph.capture(kInputImage, image);
  graph.capture(kInputClasses, target);
  const Value scores = network.append(graph, image, build);
  graph.set_label("loss");
  Value loss;
  for (const LossTerm& term : config.loss) {
    const Value part = loss_of(term, scores, target) * term.weight;
    loss = loss ? loss + part : part;
  }
  graph.output("loss", loss);
  return graph;
}

Graph label_graph(const TrainNetwork& network, const Shape& extents,
                  const std::function<std::string(const std::string&)>& called) {
  Graph graph;
  const Value image = graph.input("image", DType::F32, {1, 1, extents[0], extents[1], extents[2]});
  BuildOptions build;
  build.called = called;
  graph.output("labels", argmax(network.append(graph, image, build), 1, false, DType::U8));
  return graph;
}

}  // namespace gyrus
