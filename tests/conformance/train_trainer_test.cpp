// What a Trainer promises besides losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "gyrus/gyrus.h"
#include "support/device_tests.h"

namespace gyrus::test {
namespace {

using testing::HasSubstr;

// log(x w + b) against a target, for rows of any number.
Graph small_net(int64_t rows) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {rows, 3}), target = graph.input("target", DType::F32, {rows, 2});
  Tensor bias(DType::F32, {2});
  set(bias, 0, 6);
  set(bias, 1, 7);
  const Value y = matmul(x, graph.parameter("w", numbers({3, 2})), {.bias = graph.parameter("b", bias)});
  graph.output("y", y);
  graph.output("loss", mse(log(y), target));
  return graph;
}

std::map<std::string, Tensor> batch(int64_t rows, int64_t seed = 1) {
  return {{"x", numbers({rows, 3}, seed)}, {"target", numbers({rows, 2}, seed + 1)}};
}

TrainerOptions options() {
  TrainerOptions made;
  made.schedule = {.kind = ScheduleKind::Cosine, .rate = 0.05, .total = 20};
  return made;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Trainer, GoesOnFromACheckpointAsIfNothingHadHappened) {
  Trainer first(device(), small_net(4), options());
  for (int64_t i = 0; i < 5; ++i) first.step(batch(4, i));
  const std::vector<std::byte> saved = first.save();
  Trainer second(device(), small_net(4), options());
  second.load(saved);
  EXPECT_EQ(second.updates(), 5);
  EXPECT_EQ(second.rate(), first.rate());
  for (int64_t i = 5; i < 9; ++i) EXPECT_EQ(second.step(batch(4, i)).loss, first.step(batch(4, i)).loss) << i;
  EXPECT_EQ(second.save(), first.save());
  EXPECT_THAT(message_of([&] { second.load(first.memory().save()); }), HasSubstr("was not saved by a trainer"));
}

TEST(Trainer, CollectsGradientsOfSeveralSteps) {
  TrainerOptions twice = options();
  twice.training.accumulate = 2;
  Trainer parts(device(), small_net(4), twice), whole(device(), small_net(8), options());
  const std::map<std::string, Tensor> all = batch(8);
  const auto half = [&](int64_t begin) {
    std::map<std::string, Tensor> rows;
    for (const auto& [name, tensor] : all) {
      const int64_t columns = tensor.shape[1];
      Tensor t(DType::F32, {4, columns});
      for (int64_t i = 0; i < t.size(); ++i) set(t, i, get(tensor, begin * columns + i));
      rows[name] = t;
    }
    return rows;
  };
  for (int step = 0; step < 3; ++step) {
    EXPECT_FALSE(parts.step(half(0)).updated);
    EXPECT_TRUE(parts.step(half(4)).updated);
    whole.step(all);
  }
  const auto found = parts.parameters(), wanted = whole.parameters();
  for (const auto& [name, tensor] : wanted)
    for (int64_t i = 0; i < tensor.size(); ++i) EXPECT_NEAR(get(found.at(name), i), get(tensor, i), 1e-5) << name;
}

TEST(Trainer, ALossThatIsNotFiniteChangesNothing) {
  Trainer trainer(device(), small_net(4), options());
  trainer.step(batch(4));
  const std::vector<std::byte> before = trainer.save();
  std::map<std::string, Tensor> bad = batch(4);
  for (int64_t i = 0; i < bad["x"].size(); ++i) set(bad["x"], i, -1e4);
  set(bad["x"], 0, 1e4);
  const std::string said = message_of([&] { trainer.step(bad); });
  EXPECT_THAT(said, HasSubstr("the loss of step 2 is"));
  EXPECT_THAT(said, HasSubstr("last good step"));
  EXPECT_EQ(trainer.save(), before);
  trainer.step(batch(4));
  EXPECT_EQ(trainer.updates(), 2);
}

TEST(Trainer, ParametersGoUpAndDownByName) {
  TrainerOptions frozen = options();
  frozen.training.groups = {{.pattern = "b*", .frozen = true}};
  Trainer trainer(device(), small_net(4), frozen);
  EXPECT_EQ(trainer.names(), std::vector<std::string>{"w"});
  const Tensor start = trainer.memory().read("b");
  RunOptions with_gradient;
  with_gradient.captures = {"gradient/w"};
  EXPECT_EQ(trainer.step(batch(4), with_gradient).outputs.at("gradient/w").shape, (Shape{3, 2}));
  EXPECT_EQ(trainer.memory().read("b").data, start.data);
  EXPECT_NE(trainer.parameters().at("w").data, numbers({3, 2}).data);
  trainer.set_parameters({{"w", numbers({3, 2})}});
  EXPECT_EQ(trainer.parameters().at("w").data, numbers({3, 2}).data);
  EXPECT_THAT(message_of([&] { trainer.set_parameters({{"v", numbers({3, 2})}}, true); }), HasSubstr("there are: w"));
  EXPECT_THAT(message_of([&] { trainer.set_parameters({}); }), HasSubstr("missing are w"));
  // Other batch sizes share the parameters.
  EXPECT_EQ(trainer.run({{"x", numbers({2, 3})}}).outputs.at("y").shape, (Shape{2, 2}));
  trainer.reset_optimizer();
  EXPECT_EQ(trainer.updates(), 0);
}

TEST(Trainer, RefusesWhatItCannotTrain) {
  Graph without;
  without.output("loss", reduce_sum(relu(without.input("x", DType::F32, {2}))));
  EXPECT_THAT(message_of([&] { Trainer(device(), without); }), HasSubstr("no parameters to train"));
  TrainerOptions other = options();
  other.training.loss = "dice";
  EXPECT_THAT(message_of([&] { Trainer(device(), small_net(2), other); }), HasSubstr("it has: y, loss"));
}

}  // namespace
}  // namespace gyrus::test
