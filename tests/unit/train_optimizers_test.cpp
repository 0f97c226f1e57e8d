#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/error.h"
#include "core/tensor.h"
#include "reference/reference.h"
#include "support/golden_cases.h"
#include "support/golden_optimizers.h"
#include "train/optimizer.h"

// Optimisers, clipping and schedules against PyTorch in float64.

namespace gyrus::test {
namespace {

Tensor number(double value) {
  Tensor t(DType::F32, {});
  set(t, 0, value);
  return t;
}

double off(const RefTensor& found, const Tensor& wanted) {
  return relative([&](int64_t i) { return found.data[static_cast<size_t>(i)]; }, wanted);
}

TEST(Optimizers, EqualPyTorch) {
  const GoldenFile file;
  if (file.cases().empty()) GTEST_SKIP() << "no test data";
  int checked = 0;
  for (const Json& json : file.cases()) {
    if (!is_optimizer(json)) continue;
    SCOPED_TRACE(json["name"].get<std::string>());
    const Tensor &start = file.tensor(json["inputs"][0]["name"]), &all = file.tensor(json["inputs"][1]["name"]);
    Graph graph;
    const Value w = graph.parameter("w", start), g = graph.input("g", DType::F32, start.shape);
    const Value rate = graph.argument(kLearningRate, DType::F32, 0, 10),
                step = graph.argument(kStep, DType::F32, 1, 100);
    Tensor yes(DType::Bool, {});
    set(yes, 0, 1);
    graph.update(w, add_update(optimizer_of(json), {"w", w, g, optimizer_of(json).weight_decay}, rate, step,
                               graph.constant(yes)));
    graph.output("loss", reduce_sum(g));
    reference::States states;
    const Tensor& path = file.tensor(json["outputs"][0]);
    for (int64_t t = 0; t < all.shape[0]; ++t) {
      reference::run(
          graph,
          {{"g", part(all, t)}, {kLearningRate, number(rate_of(json, t))}, {kStep, number(static_cast<double>(t + 1))}},
          states);
      EXPECT_LE(off(states.at("w"), part(path, t)), 1e-6) << "step " << t;
    }
    for (size_t i = 1; i < json["outputs"].size(); ++i) {
      const std::string slot = json["output_roles"][i];
      EXPECT_LE(off(states.at(kOptimizerPrefix + slot + "/w"), file.tensor(json["outputs"][i])), 1e-6) << slot;
    }
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

Schedule schedule_of(const Json& a) {
  const std::map<std::string, ScheduleKind> kinds = {
      {"step", ScheduleKind::ByStep},        {"multistep", ScheduleKind::MultiStep},
      {"cosine", ScheduleKind::Cosine},      {"exponential", ScheduleKind::Exponential},
      {"one_cycle", ScheduleKind::OneCycle}, {"warmup_cosine", ScheduleKind::WarmupCosine}};
  Schedule s;
  s.kind = kinds.at(a["kind"]);
  s.rate = a.contains("max") ? a["max"].get<double>() : a["base"].get<double>();
  s.gamma = a.value("gamma", s.gamma);
  s.step_size = a.value("step_size", s.step_size);
  s.milestones = a.value("milestones", s.milestones);
  s.least = a.value("min", s.least);
  s.total = a.contains("T") ? a["T"].get<int64_t>() : a.value("total", s.total);
  s.warmup = a.value("warmup", s.warmup);
  s.start = a.value("start", s.start);
  s.rising = a.value("pct_start", s.rising);
  s.div = a.value("div", s.div);
  s.final_div = a.value("final_div", s.final_div);
  s.linear = a.value("anneal", std::string("cos")) == "linear";
  return s;
}

TEST(Schedules, EqualPyTorch) {
  const GoldenFile file;
  if (file.cases().empty()) GTEST_SKIP() << "no test data";
  int checked = 0;
  for (const Json& json : file.cases()) {
    if (json["op"] != "lr_schedule") continue;
    SCOPED_TRACE(json["name"].get<std::string>());
    const Schedule schedule = schedule_of(json["attrs"]);
    const Tensor& wanted = file.tensor(json["outputs"][0]);
    for (int64_t t = 0; t < wanted.size(); ++t)
      EXPECT_NEAR(learning_rate(schedule, t), get(wanted, t), 1e-7 * std::abs(get(wanted, t)) + 1e-12) << "step " << t;
    ++checked;
  }
  EXPECT_GE(checked, 9);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// Numbers out of range are refused whoever gives them.
TEST(Schedules, NumbersLieInTheirRange) {
  const auto said = [](const Schedule& schedule) { return refusal([&] { learning_rate(schedule, 0); }); };
  EXPECT_EQ(said({.rate = -1}), "[schedule] rate is -1, expected 0 to 1e+06");
  EXPECT_EQ(said({.kind = ScheduleKind::OneCycle, .total = 0}), "[schedule] total is 0, expected 1 to 1e+08");
  EXPECT_EQ(said({.kind = ScheduleKind::MultiStep, .milestones = {3, -1}}),
            "[schedule] milestones is -1, expected 0 to 1e+08");
  EXPECT_EQ(said({.total = 0}), "accepted") << "a constant rate has no total";
}

TEST(Optimizers, NumbersLieInTheirRange) {
  Graph graph;
  graph.output("loss", reduce_sum(square(graph.parameter("w", Tensor(DType::F32, {2})))));
  const auto said = [&](const Optimizer& optimizer) {
    TrainingOptions options;
    options.optimizer = optimizer;
    return refusal([&] { training_graph(graph, options); });
  };
  EXPECT_EQ(said({.beta1 = 2}), "[optimizer] beta1 is 2, expected 0 to 0.999999");
  EXPECT_EQ(said({.weight_decay = NAN}), "[optimizer] weight_decay is nan, expected 0 to 1e+30");
  EXPECT_EQ(said({.kind = OptimizerKind::Sgd, .nesterov = true}),
            "[optimizer] nesterov wants a momentum, and no dampening");
  EXPECT_EQ(said({.kind = OptimizerKind::Sgd, .beta1 = 2}), "accepted") << "SGD has no betas";
}

// Where rounding makes the mean of squares less than the square of the mean, the root stays a number.
TEST(Optimizers, CentredRmsPropStaysFinite) {
  Graph graph;
  const Value w = graph.parameter("w", Tensor(DType::F32, {1})), g = graph.input("g", DType::F32, {1});
  const Value rate = graph.argument(kLearningRate, DType::F32, 0, 10), step = graph.argument(kStep, DType::F32, 1, 100);
  Tensor yes(DType::Bool, {}), gradient(DType::F32, {1});
  set(yes, 0, 1);
  set(gradient, 0, 0.3);  // of which that happens after 53 steps
  const Optimizer optimizer{.kind = OptimizerKind::RmsProp, .alpha = 0.5, .centered = true};
  graph.update(w, add_update(optimizer, {"w", w, g, 0}, rate, step, graph.constant(yes)));
  graph.output("loss", reduce_sum(g));
  reference::States states;
  for (int t = 1; t <= 60; ++t)
    reference::run(graph, {{"g", gradient}, {kLearningRate, number(1)}, {kStep, number(t)}}, states);
  EXPECT_TRUE(std::isfinite(states.at("w").data[0]));
}

// A network whose loss has given gradients: Σ w · g.
TEST(Clipping, EqualsPyTorch) {
  const GoldenFile file;
  if (file.cases().empty()) GTEST_SKIP() << "no test data";
  int checked = 0;
  for (const Json& json : file.cases()) {
    const std::string kind = json["op"];
    if (kind != "clip_grad_norm" && kind != "clip_grad_value") continue;
    SCOPED_TRACE(json["name"].get<std::string>());
    Graph graph;
    Value loss;
    std::map<std::string, Tensor> inputs;
    for (const Json& input : json["inputs"]) {
      const std::string name = input["role"];
      inputs[name] = file.tensor(input["name"]);
      const Value w = graph.parameter("w_" + name, Tensor(DType::F32, inputs[name].shape));
      const Value product = w * graph.input(name, DType::F32, inputs[name].shape);
      const Value part = product.shape().empty() ? product : reduce_sum(product);
      loss = loss ? loss + part : part;
    }
    graph.output("loss", loss);
    TrainingOptions options;
    options.optimizer.kind = OptimizerKind::Sgd;
    if (kind == "clip_grad_value") {
      options.clip_value = json["attrs"]["value"].get<double>();
    } else {
      options.clip_norm = json["attrs"]["max_norm"].get<double>();
      options.norm_type = json["attrs"]["norm_type"].is_string() ? HUGE_VAL : json["attrs"]["norm_type"].get<double>();
    }
    inputs[kLearningRate] = number(1);
    inputs[kStep] = number(1);
    reference::States states;
    reference::run(training_graph(graph, options), inputs, states);
    // One step of SGD from 0 is minus the gradient.
    for (size_t i = 0; i < json["outputs"].size(); ++i) {
      const std::string role = json["output_roles"][i];
      if (role == "total_norm") continue;
      const Tensor& wanted = file.tensor(json["outputs"][i]);
      const RefTensor& found = states.at("w_" + role.substr(0, role.find('_')));
      for (int64_t k = 0; k < wanted.size(); ++k)
        EXPECT_NEAR(-found.data[static_cast<size_t>(k)], get(wanted, k), 1e-6) << role;
    }
    ++checked;
  }
  EXPECT_GE(checked, 5);
}

}  // namespace
}  // namespace gyrus::test
