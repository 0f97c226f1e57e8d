// The gradients of the op table on a device against the reference executor, under several limits.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/error.h"
#include "op_cases.h"
#include "plan/check.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "support/device_tests.h"
#include "support/op_bounds.h"
#include "train/autodiff.h"

namespace gyrus::test {
namespace {

// The gradients of a case's inputs as outputs, those of its outputs as further inputs.
Graph gradients_of(const OpCase& c) {
  Graph forward = case_graph(c);
  for (const Port& port : std::vector<Port>(forward.outputs()))
    if (forward.type(port.value).dtype == DType::F32)
      forward.add_input("upstream_" + port.name, {DType::F32, forward.type(port.value).shape, Layout::Plain});
  Graph graph = differentiable(forward);
  std::vector<Seed> seeds;
  std::vector<ValueId> of;
  std::vector<std::string> names;
  for (const Port& input : graph.inputs()) {
    if (input.name.find("upstream_") == 0) {
      for (const Port& output : graph.outputs())
        if ("upstream_" + output.name == input.name) seeds.push_back({output.value, input.value});
    } else if (graph.type(input.value).dtype == DType::F32) {
      of.push_back(input.value);
      names.push_back("gradient_" + input.name);
    }
  }
  const std::vector<ValueId> found = add_gradients(graph, seeds, of);
  Graph only = graph;
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != kNoValue) only.add_output(names[i], found[i]);
  return only;
}

std::map<std::string, Tensor> inputs_of(const OpCase& c, const Graph& graph) {
  std::map<std::string, Tensor> inputs = case_inputs(c, 7);
  Rng rng(11);
  for (const Port& port : graph.inputs())
    if (inputs.count(port.name) == 0)
      inputs[port.name] = random_tensor(OpCase{}, DType::F32, graph.type(port.value).shape, rng);
  return inputs;
}

// Of numbers of many sizes even f32 in PyTorch's order of sums says little.
bool is_tame(const OpCase& c) { return c.fill != Fill::Extreme; }

TEST(GradientTable, MatchesReferenceUnderEveryLimit) {
  const bool everything = std::getenv("GYRUS_TEST_FULL") != nullptr;
  int runs = 0;
  for (size_t i = 0; i < op_cases().size(); ++i) {
    const OpCase& c = op_cases()[i];
    if (!is_tame(c) || (!everything && (i % 21 != 0 || c.large))) continue;
    SCOPED_TRACE(c.name);
    Graph graph;
    try {
      graph = gradients_of(c);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Unsupported) << error.what();
      continue;
    }
    if (graph.outputs().size() == case_graph(c).outputs().size()) continue;  // nothing varies smoothly
    const std::map<std::string, Tensor> inputs = inputs_of(c, graph);
    const auto want = reference::run(graph, inputs);
    OpCase rounded = c;  // gradients of exact cases round
    rounded.exact = false;
    for (const OpSetting& setting : op_settings(device().limits())) {
      const std::string name = setting.name;
      if (setting.precision == Precision::F16 || (!everything && name != "adapter" && name != "tiny")) continue;
      SCOPED_TRACE(name);
      const Plan plan = op_plan(c, graph, setting);
      ASSERT_NO_THROW(check(plan, setting.limits));
      const RunResult result = Executor(device(), plan).run(inputs);
      ++runs;
      for (const auto& [output, expected] : want) {
        if (output.find("gradient_") != 0 || expected.data.empty()) continue;
        const reference::Difference d = reference::difference(result.outputs.at(output), expected);
        EXPECT_LE(d.nmse, most_nmse(rounded, setting, DType::F32)) << output;
        EXPECT_LE(d.largest, most_largest(rounded, setting, DType::F32)) << output;
      }
    }
  }
  std::printf("%d runs of gradients\n", runs);
  EXPECT_GE(runs, 20);
}

}  // namespace
}  // namespace gyrus::test
