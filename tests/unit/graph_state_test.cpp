#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "graph/graph.h"
#include "support/types.h"

namespace gyrus {
namespace {

using testing::HasSubstr;

template <class Body>
std::string complaint_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidGraph);
    return error.what();
  }
  return "";
}

// w becomes w + rate · x; the step is looked at.
Graph trained() {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({4}));
  const ValueId w = graph.add_state("w", f32({4}), std::make_shared<const Tensor>(DType::F32, Shape{4}));
  const ValueId rate = graph.add_argument("rate", DType::F32, 0, 1);
  const ValueId step = graph.add("mul", {x, rate});
  graph.update(w, graph.add("add", {w, step}));
  graph.add_capture("step", step);
  return graph;
}

TEST(GraphState, PrintsStatesArgumentsCapturesAndUpdates) {
  const Graph graph = trained();
  verify(graph);
  EXPECT_EQ(print(graph),
            "input x = %0:f32[4]\n"
            "state w = %1:f32[4]\n"
            "argument rate = %2:f32[] from 0 to 1\n"
            "%3:f32[4] = mul(%0, %2)\n"
            "%4:f32[4] = add(%1, %3)\n"
            "capture step = %3\n"
            "update w = %4\n");
}

TEST(GraphState, LivesThroughTheRemovalOfDeadNodes) {
  Graph graph = trained();
  const ValueId unread = graph.add_state("unread", f32({2}));
  graph.add("relu", {unread});
  const Graph swept = without_dead_nodes(graph);
  verify(swept);
  EXPECT_EQ(swept.nodes().size(), 2u);
  ASSERT_EQ(swept.states().size(), 2u);
  EXPECT_EQ(swept.states()[0].start, graph.states()[0].start);
  EXPECT_NE(swept.states()[0].next, kNoValue);
  EXPECT_EQ(swept.states()[1].next, kNoValue);
  EXPECT_EQ(swept.arguments()[0].most, 1);
  EXPECT_EQ(swept.captures()[0].name, "step");
}

TEST(GraphState, ResultsCountAsUses) {
  const Graph graph = trained();
  const std::vector<uint32_t> uses = use_counts(graph);
  EXPECT_EQ(uses[3], 2u);  // read by add, and a capture
  EXPECT_EQ(uses[4], 1u);  // the next w
}

TEST(GraphState, RefusesUpdatesThatDoNotFit) {
  Graph graph = trained();
  const ValueId other = graph.add_input("other", f32({5}));
  const ValueId v = graph.add_state("v", f32({4}));
  EXPECT_THAT(complaint_of([&] { graph.update(v, other); }),
              HasSubstr("[v] the state is f32[4] and cannot become f32[5]"));
  EXPECT_THAT(complaint_of([&] { graph.update(0, v); }), HasSubstr("value %0 is not a state"));
  EXPECT_THAT(complaint_of([&] { graph.update(graph.states()[0].value, v); }),
              HasSubstr("[w] the state is updated twice"));
}

TEST(GraphState, VerifyNamesWhatIsWrong) {
  const auto verified = [](const std::function<void(Graph&)>& damage) {
    Graph graph = trained();
    damage(graph);
    return complaint_of([&] { verify(graph); });
  };
  EXPECT_THAT(verified([](Graph& g) { g.add_state("x", f32({1})); }), HasSubstr("'x'"));
  EXPECT_THAT(verified([](Graph& g) { g.add_capture("step", 0); }), HasSubstr("are named 'step'"));
  EXPECT_THAT(verified([](Graph& g) { g.add_output("step", 0); }), HasSubstr("are named 'step'"));
  EXPECT_THAT(verified([](Graph& g) { g.add_capture("gone", 77); }), HasSubstr("capture 'gone' is value %77"));
  EXPECT_THAT(verified([](Graph& g) { g.add_argument("a", DType::F16, 0, 1); }), HasSubstr("arguments are f32"));
  EXPECT_THAT(verified([](Graph& g) { g.add_argument("a", DType::F32, 2, 1); }), HasSubstr("from 2 to 1 is empty"));
  EXPECT_THAT(verified([](Graph& g) {
                g.set_type(1, {DType::F32, {4}, Layout::Packed});
              }),
              HasSubstr("state 'w'] is not plain"));
  EXPECT_THAT(verified([](Graph& g) { g.set_type(1, f32({3})); }), HasSubstr("starts as f32[4]"));
  EXPECT_THAT(
      verified([](Graph& g) { g.add_state("s", f32({3}), std::make_shared<const Tensor>(DType::I32, Shape{3})); }),
      HasSubstr("starts as i32[3]"));
}

}  // namespace
}  // namespace gyrus
