// Ops and layers against results that PyTorch computed in float64: the reference executor and a device, by the public
// functions of gyrus/ops.h and gyrus/nn.h.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "core/error.h"
#include "reference/reference.h"
#include "support/device_tests.h"
#include "support/golden_cases.h"
#include "support/test_data.h"

namespace gyrus::test {
namespace {

class GoldenOps : public testing::Test {
 protected:
  void SetUp() override {
    if (file_.cases().empty()) GTEST_SKIP() << "no test data";
  }

  // Whether the case is one of those that can be built.
  bool check(const Device& device, const Json& json) {
    const auto build = builds().find(json["op"]);
    if (build == builds().end()) return false;
    SCOPED_TRACE(json["name"].get<std::string>());
    Case c(json, file_.tensors());
    const Values made = build->second(c);
    if (made.empty()) return false;
    for (size_t i = 0; i < made.size(); ++i) c.graph.output("y" + std::to_string(i), made[i]);
    const auto exact = reference::run(c.graph, c.inputs);
    const RunResult result = Program(device, c.graph).run(c.inputs);
    for (size_t i = 0; i < made.size(); ++i) {
      const std::string name = "y" + std::to_string(i), role = json["output_roles"][i];
      const Tensor& wanted = file_.tensor(json["outputs"][i]);
      EXPECT_EQ(result.outputs.at(name).shape, wanted.shape) << role;
      if (result.outputs.at(name).shape != wanted.shape) continue;
      const bool floats = wanted.dtype == DType::F32 || wanted.dtype == DType::F16;
      const double f32_error =
          json.contains("f32_err") && json["f32_err"].contains(role) ? json["f32_err"][role].get<double>() : 0;
      const double bound = floats ? std::max(2e-6, 8 * f32_error) : 0;
      EXPECT_LE(error_of(exact.at(name).data, wanted), floats ? 2e-6 : 0) << role << " of the reference";
      EXPECT_LE(error_of(numbers_of(result.outputs.at(name)), wanted), bound) << role << " of the device";
    }
    return true;
  }

  const GoldenFile file_;
};

TEST_F(GoldenOps, EqualPyTorch) {
  const Device device = tested_device();
  const char* only = std::getenv("GYRUS_GOLDEN_OP");
  std::map<std::string, int> left;
  int checked = 0;
  for (const Json& json : file_.cases()) {
    if (only && json["op"] != only) continue;
    try {
      if (check(device, json))
        ++checked;
      else
        ++left[json["op"]];
    } catch (const Error& error) {
      ADD_FAILURE() << json["name"] << ": " << error.what();
    }
  }
  std::printf("%d cases checked; left:", checked);
  for (const auto& [op, count] : left) std::printf(" %s %d", op.c_str(), count);
  std::printf("\n");
  EXPECT_TRUE(only || checked > 600) << checked;
}

TEST_F(GoldenOps, GradientsEqualPyTorch) {
  const Device device = tested_device();
  const char* only = std::getenv("GYRUS_GOLDEN_OP");
  const bool everything = std::getenv("GYRUS_TEST_FULL") != nullptr || only;
  int checked = 0, seen = 0;
  for (const Json& json : file_.cases()) {
    if (only && json["op"] != only) continue;
    if (!everything && seen++ % 7 != 0) continue;
    SCOPED_TRACE(json["name"].get<std::string>());
    try {
      const std::optional<GoldenGradients> made = golden_gradients(file_, json);
      if (!made) continue;
      const RunResult result = Program(device, made->graph).run(made->inputs);
      for (const auto& [name, wanted] : made->wanted) {
        const double f32_error = json["f32_err"].value(name, 0.0);
        EXPECT_LE(error_of(numbers_of(result.outputs.at(name)), file_.tensor(wanted)), std::max(2e-6, 8 * f32_error))
            << name;
      }
      ++checked;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  std::printf("gradients of %d cases checked\n", checked);
  EXPECT_TRUE(only || checked > (everything ? 700 : 100)) << checked;
}

}  // namespace
}  // namespace gyrus::test
