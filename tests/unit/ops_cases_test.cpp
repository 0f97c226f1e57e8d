#include <algorithm>
#include <cmath>
#include <set>

#include "op_cases.h"
#include "ops_support.h"
#include "reference/reference.h"

// The table of cases against itself: complete, sound, and every Composite op equal to what it decomposes into.

namespace gyrus::test {
namespace {

// Decomposition changes the order of double operations and rounds constants to f32.
constexpr double kDecomposed = 1e-6;

TEST(OpCases, CoverEveryOp) {
  std::set<std::string> covered, names;
  for (const OpCase& c : op_cases()) {
    covered.insert(c.op);
    EXPECT_TRUE(names.insert(c.name).second) << c.name << " twice";
    EXPECT_EQ(c.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << c.name;
  }
  for (const OpDef* def : all_ops()) EXPECT_EQ(covered.count(std::string(def->name)), 1u) << def->name;
}

TEST(OpCases, GiveFiniteResultsOfTheDeclaredShape) {
  for (const OpCase& c : op_cases()) {
    if (c.large) continue;
    SCOPED_TRACE(c.name);
    const Graph graph = case_graph(c);
    const auto outputs = reference::run(graph, case_inputs(c, 1));
    for (const Port& port : graph.outputs()) {
      const RefTensor& y = outputs.at(port.name);
      EXPECT_EQ(y.shape, graph.type(port.value).shape);
      EXPECT_TRUE(std::all_of(y.data.begin(), y.data.end(), [](double v) { return std::isfinite(v); }));
    }
  }
}

TEST(OpCases, AreTheSameEveryTime) {
  const OpCase& c = op_cases().front();
  EXPECT_EQ(print(case_graph(c)), print(case_graph(c)));
  EXPECT_EQ(case_inputs(c, 3).at("x0").data, case_inputs(c, 3).at("x0").data);
  EXPECT_NE(case_inputs(c, 3).at("x0").data, case_inputs(c, 4).at("x0").data);
}

TEST(OpCases, LargeOnesPassTinyBuffers) {
  int count = 0;
  for (const OpCase& c : op_cases()) {
    if (!c.large) continue;
    ++count;
    const Graph graph = case_graph(c);
    int64_t most = 0;
    for (ValueId id = 0; id < graph.value_count(); ++id) most = std::max(most, element_count(graph.type(id).shape) * 4);
    EXPECT_GT(most, 1 << 21) << c.name;
  }
  EXPECT_GE(count, 8);
}

// The graph with every Composite node replaced by its decomposition.
Graph decomposed(const Graph& graph) {
  Graph result;
  std::vector<ValueId> renamed(graph.value_count(), kNoValue);
  for (const Port& port : graph.inputs()) renamed[port.value] = result.add_input(port.name, graph.type(port.value));
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) renamed[id] = result.add_constant(graph.value(id).name, graph.value(id).constant);
  for (Node node : graph.nodes()) {
    for (ValueId& id : node.inputs)
      if (id != kNoValue) id = renamed[id];
    const std::vector<ValueId> old = node.outputs;
    const OpDef& def = op(node.op);
    const std::vector<ValueId> made = def.decompose ? def.decompose(result, node) : result.add_node(std::move(node));
    for (size_t i = 0; i < made.size(); ++i) renamed[old[i]] = made[i];
  }
  for (const Port& port : graph.outputs()) result.add_output(port.name, renamed[port.value]);
  return result;
}

TEST(OpCases, CompositesEqualTheirDecomposition) {
  int composites = 0;
  for (const OpCase& c : op_cases()) {
    const Graph graph = case_graph(c);
    const bool composite = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                       [](const Node& node) { return op(node.op).decompose != nullptr; });
    if (c.large || !composite || c.op == "argmax") continue;
    SCOPED_TRACE(c.name);
    ++composites;
    const Graph simple = decomposed(graph);
    verify(simple, "decompose");
    for (const Node& node : simple.nodes())
      EXPECT_TRUE(!op(node.op).decompose || op(node.op).has_kernel || op(c.op).has_kernel) << node.op;
    const auto want = reference::run(graph, case_inputs(c, 1)), got = reference::run(simple, case_inputs(c, 1));
    // A decomposition that computes in singles rounds a result of halves at its end.
    const DType dtype = graph.type(graph.outputs()[0].value).dtype;
    const double bound = dtype == DType::F16 ? 0x1p-11 : kDecomposed;
    for (const auto& [name, tensor] : want) {
      ASSERT_EQ(got.at(name).shape, tensor.shape);
      for (size_t i = 0; i < tensor.data.size(); ++i)
        ASSERT_NEAR(got.at(name).data[i], tensor.data[i], bound * (1 + std::abs(tensor.data[i])));
    }
  }
  EXPECT_GT(composites, 15);
}

TEST(Reference, ChecksItsInputs) {
  Graph graph;
  graph.add_output("y", graph.add("neg", {graph.add_input("x", f32({2}))}));
  const Tensor x = Tensor::from_floats({2}, {1, 2});
  EXPECT_THAT(reference::run(graph, {{"x", x}}).at("y").data, testing::ElementsAre(-1, -2));
  EXPECT_THROW(reference::run(graph, {}), Error);
  EXPECT_THROW(reference::run(graph, {{"x", x}, {"z", x}}), Error);
  EXPECT_THROW(reference::run(graph, {{"x", Tensor::from_floats({1}, {1})}}), Error);
  EXPECT_THROW(reference::run(graph, {{"x", Tensor(DType::I32, {2})}}), Error);
}

TEST(Reference, KeepsValuesThatAreReadAgainOrPutOut) {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({2}));
  const ValueId y = graph.add("neg", {x});
  graph.add_output("negated", y);
  graph.add_output("sum", graph.add("add", {graph.add("mul", {y, y}), x}));
  graph.add_output("same", x);
  const auto outputs = reference::run(graph, {{"x", Tensor::from_floats({2}, {1, 2})}});
  EXPECT_THAT(outputs.at("negated").data, testing::ElementsAre(-1, -2));
  EXPECT_THAT(outputs.at("sum").data, testing::ElementsAre(2, 6));
  EXPECT_THAT(outputs.at("same").data, testing::ElementsAre(1, 2));
}

TEST(Reference, RoundsOnlyOnConversion) {
  const Tensor half = reference::to_tensor(ref({2}, {2049, 1.0 / 3}), DType::F16);
  EXPECT_THAT(reference::from_tensor(half).data, testing::ElementsAre(2048, 0.333251953125));
}

}  // namespace
}  // namespace gyrus::test
