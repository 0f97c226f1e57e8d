// Augmentation and dropout on a device against the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gyrus/gyrus.h"
#include "plan/check.h"
#include "reference/bounds.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "support/device_tests.h"
#include "support/op_bounds.h"

namespace gyrus::test {
namespace {

// Coordinates round differently where they lie on the border between two voxels.
constexpr double kMostLabels = 2e-3;
// A coordinate is good to 2^-22 of a volume's extent, and an image changes by less than 1 from voxel to voxel.
constexpr double kMostImage = 1e-4;

AugmentOptions everything() {
  AugmentOptions o;
  o.flip[0] = o.flip[1] = o.flip[2] = true;
  o.rotate = 20;
  o.scale = 0.2;
  o.shear = 0.1;
  o.translate = 2;
  o.elastic = 1;
  o.elastic_spacing = 6;
  o.noise = 0.1;
  o.bias = 0.4;
  o.bias_spacing = 12;
  o.gamma = 0.3;
  o.contrast = 0.2;
  o.brightness = 0.1;
  o.blur = 1;
  o.resolution = 3;
  return o;
}

Graph graph_of(const AugmentOptions& options, int64_t samples, const Shape& size) {
  Graph graph;
  const Value labels = graph.input("labels", DType::I32, {samples, size[0], size[1], size[2]});
  const Value image = graph.input("image", DType::F32, {samples, 1, size[0], size[1], size[2]});
  const Augmented made = augment(image, labels, graph.input("key", DType::I32, {2}), 3, options);
  graph.output("moved", made.image);
  graph.output("labels_moved", made.labels);
  return graph;
}

std::map<std::string, Tensor> inputs_of(int64_t samples, const Shape& size) {
  Tensor labels(DType::I32, {samples, size[0], size[1], size[2]});
  Tensor image(DType::F32, {samples, 1, size[0], size[1], size[2]}), key(DType::I32, {2});
  for (int64_t i = 0; i < labels.size(); ++i) {
    const double wave = std::sin(0.21 * static_cast<double>(i % size[2])) + std::cos(0.013 * static_cast<double>(i));
    set(labels, i, std::floor(std::abs(wave) * 2));
    set(image, i, 0.25 + 0.2 * wave);
  }
  set(key, 0, 11);
  set(key, 1, 5);
  return {{"labels", labels}, {"image", image}, {"key", key}};
}

void compare(const Tensor& got, const RefTensor& want) {
  ASSERT_EQ(got.shape, want.shape);
  double different = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double distance = std::abs(get(got, i) - want.data[static_cast<size_t>(i)]);
    different += distance > (is_float(got.dtype) ? kMostImage : 0);
  }
  EXPECT_LE(different / static_cast<double>(got.size()), kMostLabels);
}

void matches(const AugmentOptions& options, int64_t samples, const Shape& size) {
  const Graph graph = graph_of(options, samples, size);
  const std::map<std::string, Tensor> inputs = inputs_of(samples, size);
  const auto want = reference::run(graph, inputs);
  for (const Limits& limits : {device().limits(), tiny_limits()}) {
    const Plan plan = make_plan(optimize(graph, Precision::F32), limits, software_options());
    check(plan, limits);
    Executor executor(device(), plan);
    const RunResult result = executor.run(inputs);
    for (const auto& [name, tensor] : want) {
      SCOPED_TRACE(name);
      compare(result.outputs.at(name), tensor);
    }
  }
}

TEST(Augment, OfEveryKindMatchesTheReference) { matches(everything(), 2, {16, 12, 20}); }

TEST(Augment, SynthesisMatchesTheReference) {
  AugmentOptions o = everything();
  o.synthesize = true;
  o.labels = 5;
  matches(o, 2, {12, 16, 20});
}

TEST(Augment, VolumesBeyondAWindowMatchTheReference) {
  AugmentOptions o;
  o.flip[1] = true;
  o.rotate = 10;
  o.elastic = 1;
  o.noise = 0.1;
  matches(o, 1, {64, 64, 64});
}

TEST(Augment, FlipsAreExactOnADevice) {
  AugmentOptions o;
  o.flip[0] = o.flip[1] = o.flip[2] = true;
  const Graph graph = graph_of(o, 4, {9, 8, 10});
  const auto inputs = inputs_of(4, {9, 8, 10});
  const auto want = reference::run(graph, inputs);
  Program program(device(), graph);
  const RunResult result = program.run(inputs);
  for (const auto& [name, tensor] : want)
    for (size_t i = 0; i < tensor.data.size(); ++i)
      ASSERT_EQ(get(result.outputs.at(name), static_cast<int64_t>(i)), static_cast<float>(tensor.data[i])) << name;
}

// A network with all that is random.
Graph random_net(int64_t batch) {
  Graph graph;
  const Value image = graph.input("image", DType::F32, {batch, 1, 6, 6, 6});
  const Value labels = graph.input("labels", DType::I32, {batch, 6, 6, 6});
  const Value key = random_key(graph);
  AugmentOptions o;
  o.flip[2] = true;
  o.rotate = 10;
  o.noise = 0.1;
  const Augmented a = augment(image, labels, key, 0, o);
  Value x = relu(conv(a.image, graph.parameter("w1", numbers({6, 1, 3, 3, 3})), {.pads = {1, 1, 1, 1, 1, 1}}));
  x = dropout_channels(dropout(x, key, 1, 0.3), key, 2, 0.4);
  const Value y = conv(x, graph.parameter("w2", numbers({4, 6, 1, 1, 1}, 3)));
  graph.output("y", y);
  graph.output("loss", cross_entropy(y, a.labels));
  return graph;
}

std::map<std::string, Tensor> random_batch(int64_t batch) {
  auto inputs = inputs_of(batch, {6, 6, 6});
  inputs.erase("key");
  return inputs;
}

TEST(RandomTraining, StepsMatchTheReferenceAndAdvanceTheKey) {
  TrainerOptions options;
  options.seed = 42;
  Trainer trainer(device(), random_net(2), options);
  reference::States states;
  const Graph graph = training_graph(random_net(2), options.training);
  for (int step = 0; step < 3; ++step) {
    auto inputs = random_batch(2);
    const double loss = trainer.step(inputs).loss;
    const auto scalar = [](DType dtype, double value) {
      Tensor t(dtype, {});
      set(t, 0, value);
      return t;
    };
    inputs[kRandomSeed] = scalar(DType::I32, 42);
    inputs[kRandomStep] = scalar(DType::I32, step);
    inputs[kLearningRate] = scalar(DType::F32, 1e-3);
    inputs[kStep] = scalar(DType::F32, step + 1);
    EXPECT_NEAR(reference::run(graph, inputs, states).at("loss").data[0], loss, 1e-4 * loss) << step;
  }
  EXPECT_EQ(trainer.steps(), 3);
}

TEST(RandomTraining, GoesOnWithTheSameNumbers) {
  TrainerOptions options, other;
  options.seed = 42;
  options.training.accumulate = other.training.accumulate = 2;
  Trainer first(device(), random_net(2), options);
  for (int i = 0; i < 3; ++i) first.step(random_batch(2));
  EXPECT_EQ(first.updates(), 1);
  EXPECT_EQ(first.steps(), 3);
  const std::vector<std::byte> saved = first.save();
  Trainer second(device(), random_net(2), other), third(device(), random_net(2), other);
  second.load(saved);
  EXPECT_EQ(second.steps(), 3);
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) {
    losses.push_back(first.step(random_batch(2)).loss);
    EXPECT_EQ(second.step(random_batch(2)).loss, losses.back()) << i;
  }
  EXPECT_NE(losses[0], losses[1]) << "steps that only collect draw anew";
  EXPECT_NE(third.step(random_batch(2)).loss, losses[0]);
}

TEST(RandomTraining, RunsWithoutWhatIsRandomAndWithOtherBatches) {
  Trainer trainer(device(), random_net(2), TrainerOptions{});
  auto one = random_batch(1);
  trainer.step(random_batch(2));
  one.erase("labels");
  const RunResult first = trainer.run(one), second = trainer.run(one);
  EXPECT_EQ(first.outputs.at("y").data, second.outputs.at("y").data);
  EXPECT_EQ(first.outputs.at("y").shape, (Shape{1, 4, 6, 6, 6}));
}

}  // namespace
}  // namespace gyrus::test
