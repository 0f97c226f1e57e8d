#include "unit/passes_support.h"

namespace gyrus {
namespace {

using namespace gyrus::test;

// conv1 → relu → conv2, whose packed middle is captured and whose mean over all is added to a state; a second state
// becomes what the first one was.
Graph stateful() {
  Net net;
  const ValueId x = net.input({1, 3, 4, 5, 6});
  const ValueId rate = net.graph.add_argument("rate", DType::F32, 0, 1);
  const ValueId sum = net.graph.add_state("sum", {DType::F32, {1, 4, 4, 5, 6}});
  const ValueId last = net.graph.add_state("last", {DType::F32, {1, 4, 4, 5, 6}});
  const ValueId middle = net.add("relu", {net.conv(x, 5, 3, "conv1")});
  const ValueId y = net.conv(middle, 4, 3, "conv2");
  net.graph.update(sum, net.add("add", {sum, net.add("mul", {y, rate})}));
  net.graph.update(last, sum);
  net.graph.add_capture("middle", middle);
  return net.done(net.add("sub", {y, last}));
}

std::map<std::string, Tensor> inputs_of(const Graph& graph) {
  std::map<std::string, Tensor> inputs = random_inputs(graph, 3);
  inputs["rate"] = Tensor(DType::F32, {});
  set(inputs["rate"], 0, 0.25);
  return inputs;
}

void expect_same(const std::map<std::string, RefTensor>& got, const std::map<std::string, RefTensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, expected] : want) {
    ASSERT_EQ(got.at(name).shape, expected.shape) << name;
    for (size_t i = 0; i < expected.data.size(); ++i)
      ASSERT_NEAR(got.at(name).data[i], expected.data[i], kFoldedToF32 * (1 + std::abs(expected.data[i]))) << name;
  }
}

TEST(PassesState, KeepTheMeaningOverSeveralRuns) {
  const Graph graph = stateful();
  const std::map<std::string, Tensor> inputs = inputs_of(graph);
  for (const Precision precision : {Precision::F32, Precision::F16}) {
    optimize(graph, precision, [&](const std::string& pass, const Graph& after) {
      SCOPED_TRACE("after " + pass + "\n" + print(after));
      reference::States want_states, states;
      for (int run = 0; run < 3; ++run) {
        const auto want = reference::run(graph, inputs, want_states);
        const auto got = reference::run(after, inputs, states);
        ASSERT_EQ(got.size(), 2u);
        expect_same(got, want);
        expect_same(states, want_states);
      }
      EXPECT_NE(states.at("last").data, states.at("sum").data);
      for (const State& state : after.states()) EXPECT_EQ(after.type(state.next).layout, Layout::Plain);
      for (const Port& port : after.captures()) EXPECT_EQ(after.type(port.value).layout, Layout::Plain);
    });
  }
}

TEST(ReferenceState, StartsAsTheGraphSaysAndGoesOn) {
  Graph graph;
  auto start = std::make_shared<Tensor>(Tensor::from_floats({2}, {1, 2}));
  const ValueId w = graph.add_state("w", {DType::F32, {2}}, start);
  const ValueId unchanged = graph.add_state("unchanged", {DType::F32, {2}}, start);
  graph.update(w, graph.add("add", {w, unchanged}));
  graph.add_output("y", w);
  reference::States states;
  EXPECT_EQ(reference::run(graph, {}, states).at("y").data, (std::vector<double>{1, 2}));
  EXPECT_EQ(reference::run(graph, {}, states).at("y").data, (std::vector<double>{2, 4}));
  EXPECT_EQ(states.at("w").data, (std::vector<double>{3, 6}));
  EXPECT_EQ(states.at("unchanged").data, (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace gyrus
