// What the way back makes again changes memory and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/limits.h"
#include "core/tensor.h"
#include "graph/graph.h"
#include "gyrus/losses.h"
#include "gyrus/random.h"
#include "gyrus/train.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "reference/reference.h"

namespace gyrus::test {
namespace {

Tensor numbers(const Shape& shape, int64_t seed) {
  Tensor t(DType::F32, shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, static_cast<double>((i * 31 + seed * 17) % 23) * 0.02 - 0.2);
  return t;
}

// A few layers of a MeshNet with dropout, of this extent.
Graph meshnet(int64_t extent, int64_t channels = 5, int64_t layers = 4) {
  Graph graph;
  Value x = graph.input("x", DType::F32, {1, 1, extent, extent, extent});
  const Value target = graph.input("target", DType::I32, {1, extent, extent, extent}), key = random_key(graph);
  for (int64_t i = 0; i < layers; ++i) {
    const Value w = graph.parameter("w" + std::to_string(i), numbers({channels, x.shape()[1], 3, 3, 3}, i));
    x = gelu(instance_norm(conv(x, w, {.pads = {1, 1, 1, 1, 1, 1}})));
    x = dropout(x, key, i, 0.2);
  }
  const Value y = conv(x, graph.parameter("last", numbers({3, channels, 1, 1, 1}, 9)));
  graph.output("y", y);
  graph.output("loss", cross_entropy(y, target));
  return graph;
}

TrainingOptions with(Recompute recompute) {
  TrainingOptions options;
  options.recompute = recompute;
  return options;
}

TEST(Recompute, GradientsStayTheSame) {
  const auto scalar = [](DType dtype, double value) {
    Tensor t(dtype, {});
    set(t, 0, value);
    return t;
  };
  std::map<std::string, Tensor> inputs = {{"x", numbers({1, 1, 4, 4, 4}, 5)},
                                          {"target", Tensor(DType::I32, {1, 4, 4, 4})}};
  inputs[kRandomSeed] = scalar(DType::I32, 3);
  inputs[kRandomStep] = scalar(DType::I32, 0);
  inputs[kLearningRate] = scalar(DType::F32, 1e-3);
  inputs[kStep] = scalar(DType::F32, 1);
  const auto wanted = reference::run(training_graph(meshnet(4), with(Recompute::None)), inputs);
  EXPECT_GT(wanted.size(), 6u);
  for (Recompute recompute : {Recompute::Norms, Recompute::Cheap}) {
    const auto found = reference::run(training_graph(meshnet(4), with(recompute)), inputs);
    for (const auto& [name, tensor] : wanted) EXPECT_EQ(found.at(name).data, tensor.data) << name;
  }
}

TEST(Recompute, SavesMemory) {
  const auto bytes = [](Recompute recompute) {
    return make_plan(optimize(training_graph(meshnet(32, 8, 10), with(recompute)), Precision::F32), default_limits(),
                     {})
        .peak_bytes();
  };
  const uint64_t none = bytes(Recompute::None), norms = bytes(Recompute::Norms), cheap = bytes(Recompute::Cheap);
  const double map = 8 * 32 * 32 * 32 * 4;
  // Of each layer are kept the convolution, the norm and what dropout leaves; then no norm; then the first alone. What
  // is made again lives for a moment.
  EXPECT_GT(static_cast<double>(none - norms), 8 * map);
  EXPECT_GT(static_cast<double>(norms - cheap), 6 * map);
}

TEST(WithParameters, NamedConstantsAreTrained) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {1, 2, 5});
  const Value w = graph.constant(numbers({3, 2, 1}, 1), "w"), mean = graph.constant(numbers({3}, 2), "mean"),
              variance = graph.constant(Tensor(DType::F32, {3}), "variance");
  const Value y = batch_norm(conv(x, w), mean, variance);
  graph.output("y", y);
  const Graph made = with_loss(with_parameters(graph), "cross_entropy");
  EXPECT_THAT(trainable(made, {}), testing::ElementsAre("w"));
  EXPECT_EQ(made.states().size(), 1u);
  EXPECT_EQ(made.inputs().size(), 2u);
  EXPECT_EQ(made.type(made.inputs()[1].value).shape, (Shape{1, 5}));
  const Graph regression = with_loss(with_parameters(graph), "mse");
  EXPECT_EQ(regression.type(regression.inputs()[1].value).shape, (Shape{1, 3, 5}));
  EXPECT_EQ(training_graph(made, {}).captures().size(), 1u);
  const auto refusal = [&](const std::string& loss, const std::string& of) -> std::string {
    try {
      with_loss(graph, loss, of);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal("hinge", ""), testing::HasSubstr("[loss] 'hinge' is none of: cross_entropy, dice"));
  EXPECT_THAT(refusal("mse", "z"), testing::HasSubstr("[loss] the network has no output 'z'; it has: y"));
  for (const char* loss : {"dice", "dice_cross_entropy", "focal", "bce", "l1", "huber"})
    EXPECT_EQ(refusal(loss, "y"), "accepted");
}

}  // namespace
}  // namespace gyrus::test
