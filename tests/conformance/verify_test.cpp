// verify_on: a device is compared with the reference node by node.
#include "gyrus/verify.h"

#include <gtest/gtest.h>

#include "gyrus/ops.h"
#include "plan/plan.h"
#include "support/device_tests.h"
#include "support/test_data.h"

namespace gyrus::test {
namespace {

// Three convolutions of five channels with activations, then labels: packed maps with lanes that hold no channel.
Graph network() {
  Graph graph;
  Value x = graph.input("x", DType::F32, {1, 2, 6, 7, 8});
  int64_t channels = 2;
  for (const char* name : {"one", "two", "three"}) {
    graph.set_label(name);
    x = conv(x, graph.constant(numbers({5, channels, 3, 3, 3}, channels + name[0])), {.pads = {1, 1, 1, 1, 1, 1}});
    graph.set_label(std::string(name) + ".act");
    x = relu(x);
    channels = 5;
  }
  graph.set_label("labels");
  graph.output("labels", argmax(x, 1, false, DType::U8));
  return graph;
}

const std::map<std::string, Tensor>& inputs() {
  static const std::map<std::string, Tensor> given = {{"x", numbers({1, 2, 6, 7, 8}, 3)}};
  return given;
}

// Gives the dispatches of one node a kernel in which `from` is `to`.
void spoil(Plan& plan, const std::string& label, const std::string& from, const std::string& to) {
  for (Step& step : plan.steps) {
    auto* dispatch = std::get_if<Dispatch>(&step);
    if (!dispatch || dispatch->label != label) continue;
    PlanKernel kernel = plan.kernels[dispatch->kernel];
    const size_t at = kernel.wgsl.find(from);
    if (at == std::string::npos) continue;
    kernel.wgsl.replace(at, from.size(), to);
    dispatch->kernel = static_cast<uint32_t>(plan.kernels.size());
    plan.kernels.push_back(std::move(kernel));
  }
}

constexpr const char* kRelu = "return select(x, vec4<f32>(0.0), x < vec4<f32>(0.0));";
constexpr const char* kWrong = "return select(x, vec4<f32>(0.25), x < vec4<f32>(0.25));";

TEST(Verify, ADeviceThatIsRightIsSaidToBe) {
  for (const Precision& precision : {Precision::F32, Precision::F16}) {
    VerifyOptions options;
    options.precision = precision;
    const Verified found = verify_on(device(), network(), inputs(), options);
    EXPECT_TRUE(found.right());
    ASSERT_GE(found.nodes.size(), 4u);
    for (const VerifiedNode& node : found.nodes) EXPECT_TRUE(node.right) << node.name << " " << node.error;
  }
}

TEST(Verify, AWrongKernelIsFoundInTheNodeThatRunsIt) {
  VerifyOptions options;
  options.change = [](Plan& plan) {
    const size_t before = plan.kernels.size();
    spoil(plan, "two", kRelu, kWrong);
    EXPECT_GT(plan.kernels.size(), before) << plan.kernels.at(1).wgsl;
  };
  for (const uint64_t bytes : {uint64_t{1} << 28, uint64_t{1}}) {  // all nodes in one run, and a run for each
    options.capture_bytes = bytes;
    const Verified found = verify_on(device(), network(), inputs(), options);
    EXPECT_FALSE(found.right());
    ASSERT_TRUE(found.first);
    EXPECT_EQ(found.nodes[found.first->node].name, "two + two.act");
    EXPECT_EQ(found.nodes[found.first->node].op, "conv + relu");
    for (size_t n = 0; n < found.nodes.size(); ++n)
      EXPECT_EQ(found.nodes[n].right, n != found.first->node) << found.nodes[n].name;
  }
}

TEST(Verify, TheWrongNodeIsDescribed) {
  VerifyOptions options;
  options.change = [](Plan& plan) { spoil(plan, "two", kRelu, kWrong); };
  const Verified found = verify_on(device(), network(), inputs(), options);
  ASSERT_TRUE(found.first);
  const WrongNode& wrong = *found.first;
  ASSERT_GE(wrong.inputs.size(), 2u);
  EXPECT_EQ(wrong.inputs[0].tensor.shape, (Shape{1, 5, 6, 7, 8}));
  EXPECT_FALSE(wrong.inputs[0].constant);
  EXPECT_TRUE(wrong.inputs[1].constant);
  ASSERT_EQ(wrong.outputs.size(), wrong.expected.size());
  EXPECT_NE(wrong.outputs[0].tensor.data, wrong.expected[0].tensor.data);
  EXPECT_EQ(get(wrong.expected[0].tensor, 0), std::max(0.0, get(wrong.expected[0].tensor, 0)));
  ASSERT_FALSE(wrong.kernels.empty());
  EXPECT_NE(wrong.kernels[0].wgsl.find(kWrong), std::string::npos);
  EXPECT_NE(wrong.kernels[0].file.find(".wgsl"), std::string::npos) << wrong.kernels[0].file;
  EXPECT_GT(wrong.kernels[0].workgroup[0], 0u);
  EXPECT_FALSE(wrong.kernels[0].params.empty());
  EXPECT_NE(wrong.plan.find("gyrus-plan"), std::string::npos);
  EXPECT_NE(wrong.text.find("conv("), std::string::npos) << wrong.text;
}

// What only the plan of programs does wrong, where buffers are shared, is no node's fault.
TEST(Verify, OutputsOfThePlanThatProgramsRunAreCompared) {
  VerifyOptions options;
  options.change = [](Plan& plan) {
    if (plan.captures.empty()) spoil(plan, "two", kRelu, kWrong);
  };
  const Verified found = verify_on(device(), network(), inputs(), options);
  EXPECT_FALSE(found.first);
  EXPECT_EQ(found.wrong_outputs, std::vector<std::string>{"labels"});
  EXPECT_FALSE(found.right());
}

// A NaN would otherwise end the run at the argmax, which is not to blame.
TEST(Verify, ValuesThatAreNotFiniteAreFoundWhereTheyAreMade) {
  VerifyOptions options;
  options.change = [](Plan& plan) { spoil(plan, "one", kRelu, "return x / (x - x);"); };
  const Verified found = verify_on(device(), network(), inputs(), options);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.nodes[found.first->node].name, "one + one.act");
}

// The difference of nearly equal numbers hangs on their last digits: no fault of the device.
TEST(Verify, CancellationIsNoError) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {64});
  graph.set_label("angle");
  graph.output("y", sin(x * 1000.0 + 0.1));
  const Verified found = verify_on(device(), graph, {{"x", numbers({64})}});
  EXPECT_TRUE(found.right()) << found.nodes[0].error;
}

}  // namespace
}  // namespace gyrus::test
