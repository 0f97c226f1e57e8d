#include <cstring>

#include "unit/plan_support.h"

namespace gyrus {
namespace {

using namespace gyrus::test;

const Shape kShape{2, 3, 4, 5};

ValueId state(Graph& graph, const std::string& name) { return graph.add_state(name, {DType::F32, kShape}); }

size_t copies(const Plan& plan) {
  size_t count = 0;
  for (const Step& step : plan.steps) count += std::holds_alternative<Copy>(step);
  return count;
}

Plan planned(const Graph& graph, const Limits& limits = {}) {
  const Plan plan = make_plan(optimize(graph, Precision::F32), limits);
  expect_sound(plan, limits);
  expect_round_trip(plan);
  return plan;
}

uint32_t buffer_of(const PlanPort& port) { return port.pieces.at(0).range.buffer; }

TEST(PlanStates, ElementwiseUpdatesAreInPlace) {
  Graph graph;
  const ValueId w = state(graph, "w");
  const ValueId rate = graph.add_argument("rate", DType::F32, 0, 1);
  const ValueId x = graph.add_input("x", {DType::F32, kShape});
  graph.update(w, graph.add("add", {w, graph.add("mul", {x, rate})}));
  const Plan plan = planned(graph);
  EXPECT_EQ(copies(plan), 0u);
  uint64_t bytes = 0;  // all but parameters: w, x and rate, and no scratch
  for (const PlanBuffer& buffer : plan.buffers) bytes += buffer.kind == BufferKind::Params ? 0 : buffer.size;
  EXPECT_EQ(bytes, 2 * 480u + 4);
}

TEST(PlanStates, AStateReadAtOtherElementsIsNotUpdatedInPlace) {
  Graph graph;
  const ValueId w = graph.add_state("w", {DType::F32, {4, 4}});
  const ValueId row = graph.add("reshape", {w}, {{"shape", std::vector<int64_t>{1, 4, 4}}});
  const ValueId column = graph.add("reshape", {w}, {{"shape", std::vector<int64_t>{4, 1, 4}}});
  const ValueId all = graph.add("mul", {row, column});
  const ValueId some =
      graph.add("slice", {all}, {{"starts", std::vector<int64_t>{0, 0, 0}}, {"ends", std::vector<int64_t>{1, 4, 4}}});
  graph.update(w, graph.add("reshape", {some}, {{"shape", std::vector<int64_t>{4, 4}}}));
  EXPECT_EQ(copies(planned(graph)), 1u);
}

TEST(PlanStates, ArgumentsShareOneBuffer) {
  Graph graph;
  const ValueId rate = graph.add_argument("rate", DType::F32, 0, 1);
  const ValueId position = graph.add_argument("position", DType::I32, -3, 7);
  const ValueId x = graph.add_input("x", {DType::F32, kShape});
  const ValueId moved = graph.add("add", {x, graph.add("cast", {position}, {{"to", std::string("f32")}})});
  graph.add_output("y", graph.add("mul", {moved, rate}));
  graph.add_output("position", position);
  const Plan plan = planned(graph);
  ASSERT_EQ(plan.arguments.size(), 2u);
  EXPECT_EQ(plan.arguments[0].offset, 0u);
  EXPECT_EQ(plan.arguments[1].offset, 4u);
  EXPECT_EQ(plan.arguments[1].least, -3);
  EXPECT_EQ(plan.buffers[buffer_of(plan.outputs[1])].kind, BufferKind::Arguments);
  EXPECT_EQ(plan.buffers[buffer_of(plan.outputs[1])].size, 8u);
}

TEST(PlanStates, AnyOpWritesIntoAStateThatNothingReads) {
  Graph graph;
  const ValueId last = state(graph, "last");
  const ValueId x = graph.add_input("x", {DType::F32, {3, 2, 4, 5}});
  const ValueId y = graph.add("transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2, 3}}});
  graph.update(last, y);
  graph.add_output("y", y);
  const Plan plan = planned(graph);
  EXPECT_EQ(copies(plan), 0u);
  EXPECT_EQ(buffer_of(plan.outputs[0]), buffer_of(plan.states[0]));
}

TEST(PlanStates, OldContentsThatAreReadLaterAreKept) {
  Graph graph;
  const ValueId w = state(graph, "w");
  const ValueId next = graph.add("relu", {graph.add("transpose", {w}, {{"perm", std::vector<int64_t>{0, 1, 2, 3}}})});
  graph.update(w, next);
  graph.add_output("old", w);
  graph.add_output("new", next);
  const Plan plan = planned(graph);
  EXPECT_EQ(copies(plan), 2u);  // w to where the output is, then next to w
  EXPECT_NE(buffer_of(plan.outputs[0]), buffer_of(plan.states[0]));
  const auto& last = std::get<Copy>(plan.steps.back());
  EXPECT_EQ(last.to.buffer, buffer_of(plan.states[0]));
  EXPECT_EQ(last.from.buffer, buffer_of(plan.outputs[1]));
}

TEST(PlanStates, TwoMayChangePlaces) {
  Graph graph;
  const ValueId a = state(graph, "a");
  const ValueId b = state(graph, "b");
  graph.update(a, b);
  graph.update(b, a);
  const Plan plan = planned(graph);
  ASSERT_EQ(plan.steps.size(), 4u);
  for (size_t i : {0u, 1u}) EXPECT_EQ(plan.buffers[std::get<Copy>(plan.steps[i]).to.buffer].kind, BufferKind::Storage);
  for (size_t i : {2u, 3u}) EXPECT_EQ(plan.buffers[std::get<Copy>(plan.steps[i]).to.buffer].kind, BufferKind::State);
}

TEST(PlanStates, AreNeverScratchForOtherValues) {
  Graph graph;
  const ValueId w = state(graph, "w");
  graph.add_output("y", graph.add("relu", {w}));
  const Plan plan = planned(graph);
  EXPECT_NE(buffer_of(plan.outputs[0]), buffer_of(plan.states[0]));
}

TEST(PlanStates, StartsStandInTheWeights) {
  Graph graph;
  auto bytes = std::make_shared<Tensor>(DType::U8, Shape{3});
  bytes->data = {std::byte{1}, std::byte{2}, std::byte{3}};
  const ValueId a = graph.add_state("a", {DType::U8, {3}}, bytes);
  const ValueId b = graph.add_state("b", {DType::F32, {2}}, std::make_shared<Tensor>(Tensor::from_floats({2}, {5, 6})));
  graph.add_output("y", graph.add("cast", {a}, {{"to", std::string("f32")}}));
  graph.add_output("z", graph.add("relu", {b}));
  const Plan plan = planned(graph);
  ASSERT_TRUE(plan.states[0].start && plan.states[1].start);
  EXPECT_EQ(plan.weights.at(*plan.states[0].start + 2), std::byte{3});
  float found[2];
  std::memcpy(found, plan.weights.data() + *plan.states[1].start, 8);
  EXPECT_EQ(found[1], 6);
}

TEST(PlanStates, AreCutAlikeInEveryPlan) {
  const auto graph_of = [](int64_t batch) {
    Graph graph;
    const ValueId w = graph.add_state("w", {DType::F32, {9, 16, 64, 64}});
    const ValueId x = graph.add_input("x", {DType::F32, {batch, 16, 64, 64}});
    graph.add_output("y", graph.add("add", {x, graph.add("slice", {w},
                                                         {{"starts", std::vector<int64_t>{0, 0, 0, 0}},
                                                          {"ends", std::vector<int64_t>{1, 16, 64, 64}}})}));
    return graph;
  };
  const Plan one = planned(graph_of(1), tiny_limits());
  const Plan four = planned(graph_of(4), tiny_limits());
  ASSERT_GT(one.states[0].pieces.size(), 1u);
  ASSERT_EQ(one.states[0].pieces.size(), four.states[0].pieces.size());
  for (size_t i = 0; i < one.states[0].pieces.size(); ++i)
    EXPECT_EQ(one.states[0].pieces[i].range.size, four.states[0].pieces[i].range.size);
}

TEST(PlanStates, CapturesStayToTheEnd) {
  Graph graph;
  ValueId x = graph.add_input("x", {DType::F32, kShape});
  x = graph.add("relu", {x});
  graph.add_capture("first", x);
  for (int i = 0; i < 4; ++i) x = graph.add("softmax", {x}, {{"axis", int64_t{1}}});
  graph.add_output("y", x);
  const Plan plan = planned(graph);
  ASSERT_EQ(plan.captures.size(), 1u);
  const uint32_t captured = buffer_of(plan.captures[0]);
  size_t writers = 0;
  for (const Step& step : plan.steps) {
    const auto& dispatch = std::get<Dispatch>(step);
    for (size_t b = 0; b < dispatch.bindings.size(); ++b)
      writers += dispatch.bindings[b].buffer == captured &&
                 plan.kernels[dispatch.kernel].bindings[b] == BindingKind::ReadWriteStorage;
  }
  EXPECT_EQ(writers, 1u);
}

}  // namespace
}  // namespace gyrus
