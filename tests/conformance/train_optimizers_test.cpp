// Every optimiser on a device against PyTorch in float64, by a network whose loss has given gradients: Σ w · g.
#include <gtest/gtest.h>

#include <cmath>

#include "gyrus/gyrus.h"
#include "support/device_tests.h"
#include "support/golden_optimizers.h"

namespace gyrus::test {
namespace {

double off(const Tensor& found, const Tensor& wanted) {
  return relative([&](int64_t i) { return get(found, i); }, wanted);
}

TEST(Optimizers, OnADeviceEqualPyTorch) {
  const GoldenFile file;
  if (file.cases().empty()) GTEST_SKIP() << "no test data";
  int checked = 0;
  for (const Json& json : file.cases()) {
    if (!is_optimizer(json)) continue;
    SCOPED_TRACE(json["name"].get<std::string>());
    const Tensor &start = file.tensor(json["inputs"][0]["name"]), &all = file.tensor(json["inputs"][1]["name"]);
    Graph graph;
    const Value w = graph.parameter("w", start), g = graph.input("g", DType::F32, start.shape);
    graph.output("loss", reduce_sum(w * g));
    TrainerOptions options;
    options.training.optimizer = optimizer_of(json);
    Trainer trainer(device(), graph, options);
    const Tensor& path = file.tensor(json["outputs"][0]);
    for (int64_t t = 0; t < all.shape[0]; ++t) {
      trainer.set_schedule({.rate = rate_of(json, t)});
      trainer.step({{"g", part(all, t)}});
      EXPECT_LE(off(trainer.parameters().at("w"), part(path, t)), 1e-5) << "step " << t;
    }
    for (size_t i = 1; i < json["outputs"].size(); ++i) {
      const std::string slot = json["output_roles"][i];
      EXPECT_LE(off(trainer.memory().read(kOptimizerPrefix + slot + "/w"), file.tensor(json["outputs"][i])), 1e-5)
          << slot;
    }
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

}  // namespace
}  // namespace gyrus::test
