#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "support/types.h"

namespace gyrus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// x → conv(w, b) with a relu inside → fused(conv, x2); plus a node that nobody reads.
Graph sample() {
  Graph graph;
  const ValueId x = graph.add_input("image", f32({1, 1, 8, 8, 8}));
  const ValueId w = graph.add_constant("w", Tensor(DType::F32, {5, 1, 3, 3, 3}));
  const ValueId b = graph.add_constant("", Tensor(DType::F32, {5}));
  graph.add_constant("unused", Tensor(DType::F32, {2}));
  Node conv;
  conv.op = "conv";
  conv.attrs = {{"dilation", std::vector<int64_t>{1, 1, 1}}, {"pads", std::vector<int64_t>(6, 1)}};
  conv.inputs = {x, w, b};
  conv.label = "layer0.conv";
  Node relu;
  relu.op = "leaky_relu";
  relu.attrs = {{"alpha", 0.25}};
  relu.inputs = {0};
  conv.body = {relu};
  const ValueId y = graph.add_node(conv).front();
  graph.add("abs", {y}, {}, "dead");
  Node fused;
  fused.op = "fused";
  fused.inputs = {y, x};
  Node add, mul;
  add.op = "add";
  add.inputs = {0, 1};
  mul.op = "mul";
  mul.inputs = {2, 2};
  fused.body = {add, mul};
  graph.add_output("result", graph.add_node(fused).front());
  return graph;
}

TEST(Graph, InfersTypesAsNodesAreAdded) {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({1, 3, 8}));
  const ValueId w = graph.add_constant("w", Tensor(DType::F32, {4, 3, 3}));
  const ValueId y = graph.add("conv", {x, w});
  EXPECT_EQ(graph.type(y), f32({1, 4, 6}));
  EXPECT_TRUE(graph.is_constant(w));
  EXPECT_FALSE(graph.is_constant(y));
  EXPECT_THROW(graph.constant(y), Error);
}

TEST(Graph, RefusesWhatDoesNotExist) {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({2}));
  EXPECT_THROW(graph.add("no_such_op", {x}), Error);
  EXPECT_THROW(graph.add("relu", {x + 1}), Error);
  EXPECT_THROW(graph.add_input("negative", f32({2, -1})), Error);
  EXPECT_THROW(graph.add_input("negative", f32({-1})), Error);
  EXPECT_EQ(graph.nodes().size(), 0u);
}

TEST(Graph, PrintsOneNodeALine) {
  EXPECT_EQ(print(sample()),
            "input image = %0:f32[1,1,8,8,8]\n"
            "constant @w:f32[5,1,3,3,3]\n"
            "constant %2:f32[5]\n"
            "constant @unused:f32[2]\n"
            "%4:f32[1,5,8,8,8] = conv(%0, @w, %2) {dilation=[1,1,1], pads=[1,1,1,1,1,1]} => $1 = leaky_relu($0) "
            "{alpha=0.25}  # layer0.conv\n"
            "%5:f32[1,5,8,8,8] = abs(%4)  # dead\n"
            "%6:f32[1,5,8,8,8] = fused(%4, %0) => $2 = add($0, $1); $3 = mul($2, $2)\n"
            "output result = %6\n");
}

TEST(Graph, PrintsSeveralOutputsAndLayouts) {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({1, 2, 4}));
  Node conv;
  conv.op = "conv";
  conv.attrs = {{"stats", int64_t{1}}};
  conv.inputs = {x, graph.add_constant("w", Tensor(DType::F32, {3, 2, 1}))};
  const ValueId y = graph.add_node(conv).front();
  graph.set_type(y, {DType::F16, {1, 3, 4}, Layout::Packed});
  EXPECT_THAT(print(graph), HasSubstr("%2:f16[1,3,4]/packed, %3:f32[1,3,2] = conv(%0, @w) {stats=1}\n"));
}

TEST(Graph, CountsUsesAndFindsProducers) {
  const Graph graph = sample();
  EXPECT_THAT(use_counts(graph), ElementsAre(2, 1, 1, 0, 2, 0, 1));
  EXPECT_THAT(producers(graph), ElementsAre(-1, -1, -1, -1, 0, 1, 2));
}

TEST(Graph, DropsDeadNodesAndConstants) {
  Graph graph = sample();
  const ValueId idle = graph.add_input("idle", f32({3}));
  graph.set_type(4, {DType::F16, {1, 5, 8, 8, 8}, Layout::Packed});
  graph.set_name(4, "features");
  const Graph live = without_dead_nodes(graph);
  ASSERT_EQ(live.nodes().size(), 2u);
  EXPECT_EQ(live.nodes()[0].op, "conv");
  EXPECT_EQ(live.nodes()[0].body.size(), 1u);
  EXPECT_EQ(live.inputs().size(), 2u) << "inputs stay, read or not";
  EXPECT_EQ(live.type(live.inputs()[1].value), graph.type(idle));
  EXPECT_EQ(live.value_count(), graph.value_count() - 2);
  EXPECT_EQ(live.type(live.nodes()[0].outputs[0]), graph.type(4)) << "assigned precision and layout stay";
  EXPECT_EQ(live.value(live.nodes()[0].outputs[0]).name, "features");
  verify(live, "dead nodes");
}

TEST(Graph, DropsNothingFromWhatIsAlive) {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({4}));
  graph.add_output("y", graph.add("exp", {graph.add("neg", {x})}));
  EXPECT_EQ(print(without_dead_nodes(graph)), print(graph));
}

TEST(Registry, HoldsWellFormedOps) {
  for (const OpDef* def : all_ops()) {
    SCOPED_TRACE(std::string(def->name));
    EXPECT_EQ(find_op(def->name), def) << "two ops of one name";
    EXPECT_NE(def->infer, nullptr);
    EXPECT_NE(def->reference, nullptr);
    EXPECT_NE(def->flops, nullptr);
    EXPECT_EQ(def->elementwise || def->body_only, def->layout == LayoutRule::Follows);
    EXPECT_TRUE(!def->body_only || def->takes_body);
  }
  EXPECT_EQ(find_op("no_such_op"), nullptr);
  try {
    op("no_such_op");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
  }
}

}  // namespace
}  // namespace gyrus
