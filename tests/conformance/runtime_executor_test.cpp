#include <gtest/gtest.h>

#include "conformance/runtime_plans.h"

namespace gyrus {
namespace {

using namespace gyrus::testing;

TEST(RuntimeExecutor, RunsACopyClearFoldedPlanTwice) {
  Executor executor(test_device(), chain_plan());
  for (float first : {0.0f, 5.0f}) {
    Tensor x = ramp(1000);
    x.as<float>()[0] = first;
    const Tensor y = executor.run({{"x", x}}).outputs.at("y");
    ASSERT_EQ(y.shape, x.shape);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(y.as<float>()[i], 3 * (2 * x.as<float>()[i] + 1) - 1) << i;
  }
}

}  // namespace
}  // namespace gyrus
