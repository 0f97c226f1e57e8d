// Which values lie packed, how often they are repacked, and which are halves.
#include "passes_support.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;

void expect_layouts_agree(const Graph& graph) {
  for (const Port& port : graph.inputs()) EXPECT_EQ(graph.type(port.value).layout, Layout::Plain);
  for (const Port& port : graph.outputs()) EXPECT_EQ(graph.type(port.value).layout, Layout::Plain);
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) {
      EXPECT_EQ(graph.type(id).layout, Layout::Plain);
    }
}

TEST(Layout, AChainOfConvolutionsIsPackedThroughout) {
  Net net;
  ValueId x = net.input({1, 5, 4, 6, 7});
  for (int i = 0; i < 3; ++i) x = net.add("relu", {net.conv(x, 6, 3, "conv" + std::to_string(i))});
  const Graph result = checked_optimize(net.done(x), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("repack", "conv", "conv", "conv", "repack"));
  expect_layouts_agree(result);
}

TEST(Layout, OneChannelIsReadAsItIs) {
  Net net;
  const Graph result = checked_optimize(net.done(net.conv(net.input({1, 1, 4, 6, 7}), 6, 3, "conv")), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("conv", "repack"));
}

TEST(Layout, AValueIsRepackedOnceForAllItsReaders) {
  Net net;
  const ValueId x = net.input({1, 8, 6, 7, 5});
  const ValueId y = net.conv(net.conv(x, 8, 3, "a"), 8, 3, "b");
  const ValueId sum = net.add("relu", {net.add("add", {y, x})});
  const Graph result = checked_optimize(net.done(sum), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("repack", "conv", "conv", "fused", "repack"));
  EXPECT_EQ(result.type(result.nodes()[3].outputs[0]).layout, Layout::Packed);
}

TEST(Layout, OutputsThatAreReadAgainAreRepackedOnce) {
  Net net;
  const ValueId y = net.conv(net.input({1, 1, 9}), 4, 3, "conv");
  net.graph.add_output("first", y);
  net.graph.add_output("second", y);
  const ValueId turned = net.add("transpose", {y}, {{"perm", Ints{0, 2, 1}}});
  const Graph result = checked_optimize(net.done(turned), Precision::F32);
  EXPECT_EQ(count_of(result, "repack"), 1);
}

TEST(Layout, PlainGraphsHaveNoRepack) {
  Net net;
  const ValueId x = net.input({2, 3, 4, 5});
  const ValueId mean = net.add("reduce_mean", {x}, {{"axes", Ints{1}}, {"keepdims", int64_t{1}}});
  const Graph result = checked_optimize(net.done(net.add("sub", {x, mean})), Precision::F16);
  EXPECT_THAT(ops_of(result), ElementsAre("reduce_mean", "sub"));
}

TEST(Layout, ElementwiseFollowsItsPackedOperand) {
  Net net;
  const ValueId y = net.conv(net.input({1, 1, 4, 5, 6}), 7, 3, "conv");
  const ValueId gate = net.add("sigmoid", {net.conv(y, 7, 1, "gate")});
  const Graph result = checked_optimize(net.done(net.add("mul", {y, gate})), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("conv", "conv", "mul", "repack"));
}

TEST(Layout, AnOperandThatVariesOverVoxelsOnlyMakesTheResultPlain) {
  Net net;
  const ValueId y = net.conv(net.input({1, 1, 4, 5, 6}), 7, 3, "conv");
  const ValueId mask = net.graph.add_input("mask", {DType::F32, {1, 1, 4, 5, 6}});
  const Graph result = checked_optimize(net.done(net.add("mul", {y, mask})), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("conv", "repack", "mul"));
}

// A packed value of one element has four lanes, of which only the first holds it: as a scalar it is read plain.
TEST(Layout, AScalarOperandIsPlain) {
  Net net;
  const ValueId x = net.input({1, 8, 4, 5, 6});
  const ValueId y = net.conv(x, 5, 3, "conv");
  const ValueId mean = net.add("reduce_mean", {x}, {{"axes", Ints{2, 3, 4}}, {"keepdims", int64_t{1}}});
  const ValueId gate = net.conv(mean, 1, 1, "gate");
  const Graph result = checked_optimize(net.done(net.add("mul", {y, gate})), Precision::F32);
  const Node& mul = *(result.nodes().end() - 2);
  ASSERT_EQ(mul.op, "mul");
  EXPECT_EQ(result.type(mul.inputs[0]).layout, Layout::Packed);
  EXPECT_EQ(result.type(mul.inputs[1]).layout, Layout::Plain);
}

TEST(Layout, AResultOfOneElementTakesPackedOperands) {
  Net net;
  const ValueId x = net.input({1, 1, 1, 1, 1});
  const Graph result = checked_optimize(net.done(net.add("add", {net.conv(x, 1, 1, "conv"), x})), Precision::F32);
  for (const Node& node : result.nodes())
    if (node.op == "add") {
      for (ValueId id : node.inputs) EXPECT_EQ(result.type(id).layout, result.type(node.outputs[0]).layout);
    }
}

TEST(Layout, StatisticsGivenAsAPackedValueAreReadPlain) {
  Net net;
  const ValueId x = net.input({1, 4, 9});
  const ValueId stats = net.add("square", {net.conv(net.graph.add_input("s", {DType::F32, {1, 1, 2}}), 4, 1, "conv")});
  const Graph result =
      checked_optimize(net.done(net.add("norm_apply", {x, stats}, {{"groups", int64_t{4}}})), Precision::F32);
  for (const Node& node : result.nodes())
    if (node.op == "norm_apply") {
      EXPECT_EQ(result.type(node.inputs[1]).layout, Layout::Plain);
    }
}

// The kernels read plain operands of convolutions and norms as singles.
TEST(Layout, HalvesBesideThePackedMapsAreCast) {
  Net net;
  const ValueId x = net.input({1, 4, 6, 5}, DType::F16);
  const Attrs depthwise = {{"groups", int64_t{4}}};
  ValueId y = net.add("conv", {x, net.constant("w", {4, 1, 3, 3})}, depthwise);
  const ValueId gamma = net.add("cast", {net.graph.add_input("g", {DType::F32, {4}})}, {{"to", std::string("f16")}});
  y = net.add("group_norm", {y, gamma, gamma}, {{"groups", int64_t{2}}});
  const ValueId scalar = net.graph.add_input("s", {DType::F16, {1}});
  const Graph result = checked_optimize(net.done(net.add("mul", {y, scalar})), Precision::F32);
  EXPECT_EQ(count_of(result, "cast"), 5);  // x, the result, gamma and its own, s
  for (const Node& node : result.nodes()) {
    const bool packed = result.type(node.outputs[0]).layout == Layout::Packed;
    const bool reads_singles = node.op == "conv" || node.op == "norm_apply" || (node.op == "mul" && packed);
    for (ValueId id : node.inputs) {
      const TensorType& type = result.type(id);
      EXPECT_FALSE(reads_singles && type.layout == Layout::Plain && type.dtype == DType::F16) << print(result);
    }
  }
}

TEST(Precision, HalvesArePackedMapsAndNothingElse) {
  Net net;
  ValueId x = net.conv(net.input({1, 1, 4, 6, 7}), 6, 3, "conv");
  x = net.add("gelu", {net.group_norm(x, 3)});
  x = net.add("mul", {x, net.constant("scale", {1, 6, 1, 1, 1})});
  const ValueId sum = net.add("reduce_sum", {x}, {{"axes", Ints{1}}});
  const Graph result = checked_optimize(net.done(net.add("exp", {sum})), Precision::F16);
  int halves = 0;
  for (const Node& node : result.nodes())
    for (ValueId id : node.outputs) {
      const TensorType& type = result.type(id);
      const bool map = type.layout == Layout::Packed && type.shape == Shape{1, 6, 4, 6, 7};
      EXPECT_EQ(type.dtype, map ? DType::F16 : DType::F32) << print(result);
      halves += map;
    }
  EXPECT_EQ(halves, 3);
}

TEST(Precision, SinglesLeaveTheGraphAsItIs) {
  Net net;
  const Graph graph = assign_layout(net.done(net.conv(net.input({1, 1, 4, 6, 7}), 6, 3, "conv")));
  EXPECT_EQ(print(assign_precision(graph, Precision::F32)), print(graph));
  EXPECT_NE(print(assign_precision(graph, Precision::F16)), print(graph));
}

}  // namespace
}  // namespace gyrus::test
