// Constants computed beforehand, and scale and shift folded into the convolution before them.
#include "core/error.h"
#include "passes_support.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Graph decomposed_and_folded(const Graph& graph) { return fold_scale(fold_constants(decompose(graph))); }

TEST(FoldConstants, ComputesWhatDependsOnConstantsOnly) {
  Net net;
  const ValueId x = net.input({2, 3});
  const ValueId scale = net.add("exp", {net.add("add", {net.constant("a", {3}), net.constant("b", {3})})});
  const ValueId turned = net.add("transpose", {net.constant("m", {3, 2})}, {{"perm", Ints{1, 0}}});
  const Graph graph = net.done(net.add("add", {net.add("mul", {x, scale}), turned}));
  const Graph folded = fold_constants(graph);
  EXPECT_THAT(ops_of(folded), ElementsAre("mul", "add"));
  const auto inputs = random_inputs(graph, 1);
  expect_outputs(folded, inputs, reference::run(graph, inputs));
}

TEST(FoldConstants, MayLeaveNoNodeAtAll) {
  Graph graph;
  graph.add_output("y", graph.add("neg", {graph.add_constant("c", Tensor::from_floats({2}, {1, 2}))}));
  const Graph folded = fold_constants(graph);
  EXPECT_THAT(folded.nodes(), IsEmpty());
  EXPECT_THAT(reference::run(folded, {}).at("y").data, ElementsAre(-1, -2));
}

TEST(FoldConstants, KeepsTheElementType) {
  Graph graph;
  const ValueId c = graph.add_constant("c", Tensor::from_floats({3}, {-1.5f, 2.7f, 300}));
  graph.add_output("y", graph.add("cast", {c}, {{"to", std::string("u8")}}));
  const Graph folded = fold_constants(graph);
  EXPECT_EQ(folded.type(folded.outputs()[0].value), (TensorType{DType::U8, {3}, Layout::Plain}));
  EXPECT_THAT(reference::run(folded, {}).at("y").data, ElementsAre(0, 2, 255));
}

TEST(FoldScale, PutsBatchNormIntoTheConvolution) {
  Net net;
  const Graph graph = net.done(net.batch_norm(net.conv(net.input({1, 3, 5, 6, 4}), 7, 3, "conv"), "bn"));
  const Graph folded = decomposed_and_folded(graph);
  EXPECT_THAT(ops_of(folded), ElementsAre("conv"));
  EXPECT_EQ(folded.nodes()[0].label, "conv");
  const auto inputs = random_inputs(graph, 1);
  expect_outputs(folded, inputs, reference::run(graph, inputs));
}

TEST(FoldScale, GivesABiasWhereThereWasNone) {
  Net net;
  const ValueId conv = net.add("conv", {net.input({1, 2, 9}), net.constant("w", {3, 2, 3})});
  const Graph graph = net.done(net.batch_norm(conv, "bn"));
  const Graph folded = decomposed_and_folded(graph);
  ASSERT_THAT(ops_of(folded), ElementsAre("conv"));
  EXPECT_EQ(folded.nodes()[0].inputs.size(), 3u);
  const auto inputs = random_inputs(graph, 1);
  expect_outputs(folded, inputs, reference::run(graph, inputs));
}

TEST(FoldScale, LeavesAConvolutionThatOthersRead) {
  Net net;
  const ValueId conv = net.conv(net.input({1, 2, 9}), 4, 3, "conv");
  const ValueId scaled = net.add("mul", {conv, net.constant("s", {1, 4, 1})});
  const Graph graph = net.done(net.add("add", {scaled, conv}));
  EXPECT_THAT(ops_of(decomposed_and_folded(graph)), ElementsAre("conv", "mul", "add"));
}

TEST(FoldScale, LeavesConstantsThatVaryOverVoxels) {
  Net net;
  const ValueId conv = net.conv(net.input({1, 2, 9}), 4, 3, "conv");
  const Graph graph = net.done(net.add("mul", {conv, net.constant("s", {1, 4, 9})}));
  EXPECT_THAT(ops_of(decomposed_and_folded(graph)), ElementsAre("conv", "mul"));
}

TEST(FoldScale, LeavesAConstantThatWidensTheResult) {
  Net net;
  const ValueId conv = net.conv(net.input({1, 2, 1}), 4, 1, "conv");
  const Graph graph = net.done(net.add("mul", {conv, net.constant("s", {3, 4, 5})}));
  EXPECT_THAT(ops_of(decomposed_and_folded(graph)), ElementsAre("conv", "mul"));
}

// Two convolutions with the same weights and norms of their own, as weight sharing makes them.
TEST(FoldScale, NamesFoldedWeightsApart) {
  Net net;
  const ValueId x = net.input({1, 3, 6, 5, 4});
  const ValueId weight = net.constant("shared.w", {3, 3, 1, 1, 1});
  const ValueId first = net.batch_norm(net.add("conv", {x, weight}), "bn1");
  const ValueId second = net.batch_norm(net.add("conv", {first, weight}), "bn2");
  const Graph graph = net.done(second);
  EXPECT_THAT(ops_of(checked_optimize(graph, Precision::F32)), ElementsAre("repack", "conv", "conv", "repack"));
}

// A convolution of halves scaled by singles gives singles; folded it would give halves.
TEST(FoldScale, KeepsTheElementType) {
  Net net;
  const ValueId x = net.input({1, 2, 9}, DType::F16);
  const ValueId conv = net.add("conv", {x, net.constant("w", {4, 2, 3})});
  checked_optimize(net.done(net.add("mul", {conv, net.constant("s", {1, 4, 1})})), Precision::F32);
}

// As an embedding that is also the last layer's matrix.
TEST(FoldConstants, AConstantIsReadBothWaysRound) {
  Net net;
  const ValueId w = net.constant("w", {3, 5});
  const ValueId first = net.add("matmul", {net.input({2, 3}), w});
  checked_optimize(net.done(net.add("matmul", {first, w}, {{"transpose_b", int64_t{1}}})), Precision::F32);
}

TEST(Decompose, DropsTheSoftmaxUnderAnArgmaxOfTheSameAxis) {
  Net net;
  const ValueId logits = net.conv(net.input({1, 3, 4, 5, 6}), 5, 1, "classes");
  const ValueId soft = net.add("softmax", {logits}, {{"axis", int64_t{-4}}});
  const Graph graph = net.done(net.add("argmax", {soft}, {{"axis", int64_t{1}}, {"dtype", std::string("u8")}}));
  EXPECT_THAT(ops_of(decompose(graph)), ElementsAre("conv", "argmax"));
}

TEST(Decompose, KeepsTheSoftmaxUnderAnArgmaxOfAnotherAxis) {
  Net net;
  const ValueId soft = net.add("softmax", {net.input({4, 5})}, {{"axis", int64_t{0}}});
  const Graph graph = net.done(net.add("argmax", {soft}, {{"axis", int64_t{1}}}));
  EXPECT_GT(count_of(decompose(graph), "exp"), 0);
}

}  // namespace
}  // namespace gyrus::test
