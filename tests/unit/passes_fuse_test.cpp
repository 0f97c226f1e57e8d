// What is joined into one node, and what is not.
#include "gyrus/ops.h"
#include "ops/fused.h"
#include "passes_support.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;

const std::string kU8 = "u8";

const Node& only_node(const Graph& graph, const std::string& op) {
  for (const Node& node : graph.nodes())
    if (node.op == op) return node;
  throw std::runtime_error("no node " + op);
}

TEST(Fuse, ConvBatchNormReluBecomesOneConvolution) {
  Net net;
  const ValueId conv = net.conv(net.input({1, 1, 5, 6, 4}), 7, 3, "conv");
  const Graph result = checked_optimize(net.done(net.add("relu", {net.batch_norm(conv, "bn")})), Precision::F32);
  EXPECT_EQ(print(result),
            "input x = %0:f32[1,1,5,6,4]\n"
            "constant @conv.w.folded:f32[7,1,3,3,3]\n"
            "constant @conv.w.folded_bias:f32[7]\n"
            "%3:f32[1,7,5,6,4]/packed = conv(%0, @conv.w.folded, @conv.w.folded_bias) "
            "{pads=[1,1,1,1,1,1]} => $1 = relu($0)  # conv\n"
            "%4:f32[1,7,5,6,4] = repack(%3) {to=\"plain\"}\n"
            "output y = %4\n");
}

TEST(Fuse, ConvGroupNormGeluBecomesConvolutionWithStatisticsAndNormWithBody) {
  Net net;
  const ValueId conv = net.conv(net.input({1, 1, 5, 6, 4}), 6, 3, "conv");
  const Graph result = checked_optimize(net.done(net.add("gelu", {net.group_norm(conv, 3)})), Precision::F16);
  EXPECT_EQ(print(result),
            "input x = %0:f32[1,1,5,6,4]\n"
            "constant @conv.w:f32[6,1,3,3,3]\n"
            "constant @conv.b:f32[6]\n"
            "%3:f16[1,6,5,6,4]/packed, %4:f32[1,6,2] = conv(%0, @conv.w, @conv.b) "
            "{pads=[1,1,1,1,1,1], stats=1}  # conv\n"
            "%5:f16[1,6,5,6,4]/packed = norm_apply(%3, %4) {eps=1e-05, groups=3} => $1 = gelu($0)  # norm\n"
            "%6:f32[1,6,5,6,4] = repack(%5) {to=\"plain\"}\n"
            "output y = %6\n");
}

TEST(Fuse, ConvSoftmaxArgmaxBecomesOneNode) {
  for (const int64_t axis : {1, -4}) {
    Net net;
    const ValueId logits = net.conv(net.input({1, 8, 4, 5, 6}), 18, 1, "classes");
    const ValueId soft = net.add("softmax", {logits}, {{"axis", axis}});
    const Graph result =
        checked_optimize(net.done(net.add("argmax", {soft}, {{"axis", axis}, {"dtype", kU8}})), Precision::F32);
    EXPECT_THAT(ops_of(result), ElementsAre("repack", "conv_argmax")) << axis;
    EXPECT_EQ(result.nodes().back().label, "classes");
  }
}

TEST(Fuse, ArgmaxStaysWhereItIsNotOverThePointwiseClassesAlone) {
  const auto optimized = [](int64_t kernel, Attrs attrs, bool shared) {
    Net net;
    const ValueId logits = net.conv(net.input({1, 8, 4, 5, 6}), 5, kernel, "classes");
    if (shared) net.graph.add_output("logits", logits);
    return checked_optimize(net.done(net.add("argmax", {logits}, std::move(attrs))), Precision::F32);
  };
  EXPECT_EQ(count_of(optimized(3, {{"axis", int64_t{1}}}, false), "conv_argmax"), 0);
  EXPECT_EQ(count_of(optimized(1, {{"axis", int64_t{2}}}, false), "conv_argmax"), 0);
  EXPECT_EQ(count_of(optimized(1, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}}, false), "conv_argmax"), 0);
  EXPECT_EQ(count_of(optimized(1, {{"axis", int64_t{1}}, {"dtype", std::string("i32")}}, false), "conv_argmax"), 0);
  EXPECT_EQ(count_of(optimized(1, {{"axis", int64_t{1}}}, true), "conv_argmax"), 0);
  EXPECT_EQ(count_of(optimized(1, {{"axis", int64_t{1}}}, false), "conv_argmax"), 1);
}

TEST(Fuse, EpilogueTakesAChainOfActivations) {
  Net net;
  const ValueId conv = net.conv(net.input({1, 1, 9}), 4, 3, "conv");
  const ValueId clamp = net.add("affine_clamp", {net.add("gelu", {conv})}, {{"scale", 2.0}, {"lo", -1.0}, {"hi", 1.0}});
  const Graph result = checked_optimize(net.done(net.add("sigmoid", {clamp})), Precision::F32);
  ASSERT_THAT(ops_of(result), ElementsAre("conv", "repack"));
  EXPECT_THAT(body_ops(result.nodes()[0]), ElementsAre("gelu", "affine_clamp", "sigmoid"));
}

TEST(Fuse, EpilogueStaysOutsideWhereTheRawResultIsReadToo) {
  Net net;
  const ValueId conv = net.conv(net.input({1, 1, 9}), 4, 3, "conv");
  net.graph.add_output("raw", conv);
  const Graph result = checked_optimize(net.done(net.add("relu", {conv})), Precision::F32);
  EXPECT_TRUE(only_node(result, "conv").body.empty());
}

TEST(Fuse, GroupedConvolutionTakesAnEpilogueButGathersNoStatistics) {
  Net net;
  const ValueId x = net.input({1, 4, 6, 5});
  const Attrs attrs = {{"groups", int64_t{4}}, {"pads", Ints{1, 1, 1, 1}}};
  const ValueId depthwise = net.add("relu", {net.add("conv", {x, net.constant("w", {4, 1, 3, 3})}, attrs)});
  const ValueId again = net.add("conv", {depthwise, net.constant("v", {4, 1, 3, 3})}, attrs);
  const Graph result = checked_optimize(net.done(net.group_norm(again, 2)), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("conv", "conv", "repack", "norm_stats", "norm_apply", "repack"));
  EXPECT_THAT(body_ops(result.nodes()[0]), ElementsAre("relu"));
}

TEST(Fuse, OneConvolutionGathersTheStatisticsOfSeveralNorms) {
  Net net;
  const ValueId conv = net.conv(net.input({1, 1, 5, 6, 4}), 4, 3, "conv");
  const Graph result =
      checked_optimize(net.done(net.add("sub", {net.group_norm(conv, 2), net.group_norm(conv, 4)})), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("conv", "norm_apply", "norm_apply", "sub", "repack"));
}

// A convolution that gives its statistics already, and a norm that asks for them again.
TEST(Fuse, StatisticsThatAreThereAreNotGatheredTwice) {
  Net net;
  Node conv;
  conv.op = "conv";
  conv.inputs = {net.input({1, 1, 5, 6, 4}), net.constant("w", {4, 1, 1, 1, 1})};
  conv.attrs = {{"stats", int64_t{1}}};
  const std::vector<ValueId> outputs = net.graph.add_node(conv);
  net.graph.add_output("statistics", outputs[1]);
  const Graph result = checked_optimize(net.done(net.group_norm(outputs[0], 2)), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("conv", "norm_apply", "repack"));
}

// Heads of a transformer out of one product: a slice, a reshape and a transpose are one movement.
TEST(Fuse, MovementsInARowBecomeOneWhereStridesCanSayIt) {
  using Ints = std::vector<int64_t>;
  Graph graph;
  const Value x = graph.input("x", DType::F32, {2, 5, 24});
  const auto heads = [](Value part) { return transpose(reshape(part, {2, 5, 2, 4}), {0, 2, 1, 3}); };
  graph.output("q", heads(slice(x, {0, 0, 8}, {2, 5, 16})));
  // These cannot: rows of the transposed matrix are not evenly spaced in its flat order.
  graph.output("flat", slice(reshape(transpose(x, {0, 2, 1}), {240}), {3}, {237}));
  const Graph joined = join_movement(graph);
  EXPECT_EQ(ops_of(joined), (std::vector<std::string>{"strided", "transpose", "reshape", "slice"}));
  const Node& node = joined.nodes()[0];
  EXPECT_EQ(node.attrs.integers("strides"), (Ints{120, 4, 24, 1}));
  EXPECT_EQ(node.attrs.integer("offset", 0), 8);
}

// y = x + w·h: the residual is read where the product is made.
TEST(Fuse, AResidualIsAnOperandOfTheBodyOfAMatmul) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {3, 4}), h = graph.input("h", DType::F32, {3, 6});
  const Value w = graph.input("w", DType::F32, {6, 4}), row = graph.input("row", DType::F32, {4});
  graph.output("y", relu(x - matmul(h, w)));
  graph.output("z", matmul(h, w) + row);  // broadcasts: stays outside
  const Graph fused = fuse_epilogues(graph);
  EXPECT_EQ(ops_of(fused), (std::vector<std::string>{"matmul", "matmul", "add"}));
  ASSERT_EQ(fused.nodes()[0].inputs.size(), 4u);
  EXPECT_EQ(fused.nodes()[0].inputs[2], kNoValue);
  ASSERT_EQ(fused.nodes()[0].body.size(), 2u);
  EXPECT_EQ(fused.nodes()[0].body[0].inputs, (std::vector<ValueId>{1, 0}));
}

// A constant that would be read transposed is laid down so.
TEST(Fuse, ConstantOperandsOfAMatmulAreTurned) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {3, 2});
  const Value w = graph.constant(Tensor::from_floats({2, 2}, {1, 2, 3, 4}), "w");
  graph.output("y", matmul(x, w, {.transpose_b = true}));
  const Graph folded = fold_constants(graph);
  const Node& node = folded.nodes()[0];
  EXPECT_EQ(node.attrs.integer("transpose_b", 0), 0);
  EXPECT_EQ(get(folded.constant(node.inputs[1]), 1), 3);
}

TEST(Fuse, ElementwiseChainBecomesOneNodeOfAtMostSixOperands) {
  Net net;
  const ValueId x = net.input({4, 9});
  ValueId y = x;
  for (int i = 0; i < 7; ++i) {
    const ValueId other = net.graph.add_input("a" + std::to_string(i), {DType::F32, {4, 9}});
    y = net.add("tanh", {net.add("add", {net.add("square", {y}), other})});
  }
  const Graph result = checked_optimize(net.done(y), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("fused", "fused"));
  for (const Node& node : result.nodes()) EXPECT_LE(node.inputs.size(), 6u);
  EXPECT_EQ(result.nodes()[0].inputs.size(), 6u);
  EXPECT_EQ(result.nodes()[0].body.size() + result.nodes()[1].body.size(), 21u);
}

TEST(Fuse, OneOperandReadTwiceIsBoundOnce) {
  Net net;
  const ValueId x = net.input({4, 9});
  const Graph result = checked_optimize(net.done(net.add("mul", {net.add("sigmoid", {x}), x})), Precision::F32);
  ASSERT_THAT(ops_of(result), ElementsAre("fused"));
  EXPECT_EQ(result.nodes()[0].inputs.size(), 1u);
}

TEST(Fuse, CastsAndBroadcastResultsStayApart) {
  Net net;
  const ValueId x = net.input({4, 1});
  const ValueId wide = net.add("add", {net.add("exp", {x}), net.constant("c", {1, 5})});
  const ValueId half = net.add("cast", {wide}, {{"to", std::string("f16")}});
  const Graph result = checked_optimize(net.done(net.add("neg", {half})), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("exp", "add", "cast", "neg"));
}

TEST(Fuse, IntegersStayApartFromFloats) {
  Net net;
  const ValueId x = net.input({7}, DType::I32);
  const ValueId y = net.add("affine_clamp", {net.add("neg", {net.add("abs", {x})})}, {{"scale", 0.5}});
  const Graph result = checked_optimize(net.done(net.add("exp", {y})), Precision::F32);
  EXPECT_EQ(count_of(result, "fused"), 0);
}

// Longer chains than a body may have steps: cut, not refused.
TEST(Fuse, ChainsBeyondTheLengthOfABodyAreCut) {
  for (const bool behind_conv : {false, true}) {
    Net net;
    ValueId y = net.input({1, 1, 9});
    if (behind_conv) y = net.conv(y, 4, 3, "conv");
    for (size_t i = 0; i < 2 * kMaxBodySteps + 10; ++i) y = net.add(i % 2 ? "tanh" : "neg", {y});
    const Graph result = checked_optimize(net.done(y), Precision::F32);
    EXPECT_LE(result.nodes().size(), 4u);
    for (const Node& node : result.nodes()) EXPECT_LE(node.body.size(), kMaxBodySteps);
  }
}

}  // namespace
}  // namespace gyrus::test
