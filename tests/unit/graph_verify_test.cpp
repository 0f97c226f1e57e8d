#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "graph/graph.h"
#include "support/types.h"

namespace gyrus {
namespace {

using testing::HasSubstr;

// What verify says about the graph; empty where it is content.
std::string complaint(const Graph& graph) {
  try {
    verify(graph, "a pass");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidGraph);
    EXPECT_THAT(error.what(), HasSubstr("(after a pass)"));
    return error.what();
  }
}

Graph small() {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({1, 2, 5}));
  const ValueId w = graph.add_constant("w", Tensor(DType::F32, {3, 2, 1}));
  graph.add_output("y", graph.add("conv", {x, w}, {}, "first"));
  return graph;
}

// The node is owned by the graph, which offers no way to damage it: damage it behind its back.
Node& node_of(Graph& graph, size_t index) { return const_cast<Node&>(graph.nodes()[index]); }

TEST(Verify, AcceptsASoundGraph) { EXPECT_EQ(complaint(small()), ""); }

TEST(Verify, AcceptsHalvesAndLayoutsAssignedLater) {
  Graph graph = small();
  graph.set_type(2, {DType::F16, {1, 3, 5}, Layout::Packed});
  EXPECT_EQ(complaint(graph), "");
}

TEST(Verify, NamesTheNodeWithAWrongShape) {
  Graph graph = small();
  graph.set_type(2, f32({1, 3, 4}));
  EXPECT_THAT(complaint(graph), HasSubstr("[conv #0 'first'] output %2 is f32[1,3,4], but the op makes f32[1,3,5]"));
}

TEST(Verify, CatchesAWrongElementType) {
  Graph graph = small();
  graph.set_type(2, {DType::I32, {1, 3, 5}, Layout::Plain});
  EXPECT_THAT(complaint(graph), HasSubstr("is i32[1,3,5], but the op makes f32[1,3,5]"));
}

TEST(Verify, CatchesUseBeforeDefinition) {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({4}));
  const ValueId y = graph.add("relu", {x});
  graph.add_output("z", graph.add("neg", {y}));
  std::swap(node_of(graph, 0), node_of(graph, 1));
  EXPECT_THAT(complaint(graph), HasSubstr("[neg #0] reads value %1 before it is made"));
}

TEST(Verify, CatchesValuesThatDoNotExist) {
  Graph graph = small();
  node_of(graph, 0).inputs[0] = 99;
  EXPECT_THAT(complaint(graph), HasSubstr("reads value %99, which does not exist"));
}

TEST(Verify, CatchesAValueMadeTwice) {
  Graph graph = small();
  node_of(graph, 0).outputs[0] = 0;
  EXPECT_THAT(complaint(graph), HasSubstr("makes value %0, which exists already"));
}

TEST(Verify, CatchesAnUnknownOp) {
  Graph graph = small();
  node_of(graph, 0).op = "convolution";
  EXPECT_THAT(complaint(graph), HasSubstr("[convolution #0 'first'] there is no op of this name"));
}

TEST(Verify, CatchesAnAttributeThatTheOpRefuses) {
  Graph graph = small();
  node_of(graph, 0).attrs.set("strides", std::vector<int64_t>{1});
  EXPECT_THAT(complaint(graph), HasSubstr("[conv] unknown attribute 'strides'"));
}

TEST(Verify, CatchesAMissingResult) {
  Graph graph = small();
  node_of(graph, 0).attrs.set("stats", int64_t{1});
  EXPECT_THAT(complaint(graph), HasSubstr("has 1 outputs, expected 2"));
}

TEST(Verify, CatchesOutputsThatNothingMakes) {
  Graph graph = small();
  graph.add_output("nothing", 17);
  EXPECT_THAT(complaint(graph), HasSubstr("output 'nothing' is value %17, which nothing makes"));
  EXPECT_THAT(complaint(Graph()), HasSubstr("has no output"));
}

TEST(Verify, CatchesNamesUsedTwice) {
  Graph graph = small();
  graph.set_name(2, "w");
  EXPECT_THAT(complaint(graph), HasSubstr("two values are named 'w'"));
  graph = small();
  graph.add_output("y", 2);
  EXPECT_THAT(complaint(graph), HasSubstr("two outputs are named 'y'"));
  graph = small();
  graph.add_output("", 2);
  EXPECT_THAT(complaint(graph), HasSubstr("has no name"));
}

TEST(Verify, CatchesAConstantThatIsNotItsType) {
  Graph graph = small();
  graph.set_type(1, f32({3, 2, 2}));
  EXPECT_THAT(complaint(graph), HasSubstr("[constant 'w'] holds f32[3,2,1] but its type is f32[3,2,2]"));
  Graph cut;
  Tensor tensor(DType::F32, {4});
  tensor.data.resize(12);
  cut.add_output("y", cut.add_constant("c", std::move(tensor)));
  EXPECT_THAT(complaint(cut), HasSubstr("holds 12 bytes for the shape [4]"));
}

Node step(const std::string& op, std::vector<ValueId> inputs) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  return node;
}

TEST(Verify, ChecksBodies) {
  const auto with_body = [](std::vector<Node> body) {
    Graph graph = small();
    node_of(graph, 0).body = std::move(body);
    return complaint(graph);
  };
  EXPECT_EQ(with_body({step("gelu", {0}), step("add", {0, 1})}), "");
  EXPECT_THAT(with_body({step("gelu", {1})}), HasSubstr("step 0 (gelu) reads $1, but only $0 to $0 exist before it"));
  EXPECT_THAT(with_body({step("softmax", {0})}), HasSubstr("'softmax', expected an elementwise op"));
  EXPECT_THAT(with_body({step("nonsense", {0})}), HasSubstr("'nonsense', expected an elementwise op"));
  EXPECT_THAT(with_body({step("fused", {0})}), HasSubstr("'fused', expected an elementwise op"));
  EXPECT_THAT(with_body({step("add", {0})}), HasSubstr("[add] 1 inputs given, expected 2"));
  Node nested = step("relu", {0});
  nested.body = {step("relu", {0})};
  EXPECT_THAT(with_body({nested}), HasSubstr("has a body or outputs of its own"));
}

TEST(Verify, RefusesABodyWhereNoneBelongs) {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({4}));
  graph.add_output("y", graph.add("exp", {x}));
  node_of(graph, 0).body = {step("relu", {0})};
  EXPECT_THAT(complaint(graph), HasSubstr("[exp] has a body of 1 steps, but this op takes none"));
}

}  // namespace
}  // namespace gyrus
