// Biases taken into products, and several products of one value made one.
#include "gyrus/nn.h"
#include "gyrus/ops.h"
#include "passes_support.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;

TEST(FindBias, BehindAProduct) {
  for (const Shape& shape : {Shape{5}, Shape{1, 1, 5}}) {
    Net net;
    const ValueId product = net.add("matmul", {net.input({2, 3, 4}), net.constant("w", {4, 5})});
    const Graph graph = net.done(net.add("relu", {net.add("add", {net.constant("b", shape), product})}));
    const Graph result = checked_optimize(graph, Precision::F32);
    ASSERT_THAT(ops_of(result), ElementsAre("matmul"));
    EXPECT_EQ(result.nodes()[0].inputs.size(), 3u);
    EXPECT_THAT(body_ops(result.nodes()[0]), ElementsAre("relu"));
  }
}

TEST(FindBias, NotWhatVariesOverRowsOrIsReadTwice) {
  Net rows;
  rows.done(rows.add(
      "add", {rows.add("matmul", {rows.input({3, 4}), rows.constant("w", {4, 5})}), rows.constant("b", {3, 1})}));
  EXPECT_EQ(find_composites(rows.graph).nodes()[0].inputs.size(), 2u);
  checked_optimize(rows.graph, Precision::F32);
  Net twice;
  const ValueId product = twice.add("matmul", {twice.input({3, 4}), twice.constant("w", {4, 5})});
  const ValueId biased = twice.add("add", {product, twice.constant("b", {5})});
  const Graph graph = twice.done(twice.add("mul", {biased, product}));
  EXPECT_EQ(find_composites(graph).nodes()[0].inputs.size(), 2u);
  checked_optimize(graph, Precision::F32);
}

// Heads of queries, keys and values from one x; biases where `biases` has a one.
Graph heads(int biases, bool moved = true) {
  Graph graph;
  Net net;
  const Value x = graph.input("x", DType::F32, {2, 6, 12});
  std::vector<Value> parts;
  for (int i = 0; i < 3; ++i) {
    const std::string name(1, "qkv"[i]);
    const int64_t width = i == 2 ? 24 : 16;
    const auto constant = [&](const std::string& which, const Shape& shape) {
      Tensor t(DType::F32, shape);
      for (int64_t j = 0; j < t.size(); ++j) set(t, j, net.rng.uniform(-1, 1));
      return graph.constant(std::move(t), name + which);
    };
    const Value w = constant(".w", {12, width});
    Value y = matmul(x, w);
    if (biases >> i & 1) y = y + constant(".b", {width});
    parts.push_back(moved ? transpose(reshape(y, {2, 6, 2, width / 2}), {0, 2, 1, 3}) : exp(y));
  }
  if (moved)
    graph.output("y", attention(parts[0], parts[1], parts[2]));
  else
    for (int i = 0; i < 3; ++i) graph.output("y" + std::to_string(i), parts[static_cast<size_t>(i)]);
  return graph;
}

TEST(JoinProducts, QueriesKeysAndValuesAreOneProduct) {
  for (const int biases : {0, 7, 5}) {
    SCOPED_TRACE(biases);
    const Graph result = checked_optimize(heads(biases), Precision::F32);
    EXPECT_THAT(ops_of(result), ElementsAre("matmul", "strided", "strided", "strided", "attention"));
    EXPECT_EQ(result.type(result.nodes()[0].outputs[0]).shape, (Shape{2, 6, 56}));
    EXPECT_EQ(result.nodes()[0].inputs.size(), biases ? 3u : 2u);
  }
}

TEST(JoinProducts, NotWhereTheSlicesWouldBeCopies) {
  EXPECT_EQ(count_of(checked_optimize(heads(7, false), Precision::F32), "matmul"), 3);
}

TEST(JoinProducts, NotWhatIsAResult) {
  Graph graph = heads(0);
  graph.add_capture("q", graph.nodes()[0].outputs[0]);
  const Graph result = checked_optimize(graph, Precision::F32);
  EXPECT_EQ(count_of(result, "matmul"), 2) << "keys and values are still one";
}

// Weights that are computed, here from another input, are no constants.
TEST(JoinProducts, NotComputedWeights) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {6, 12}), w = graph.input("w", DType::F32, {12, 8});
  for (int i = 0; i < 2; ++i) graph.output("y" + std::to_string(i), transpose(matmul(x, i ? exp(w) : tanh(w)), {1, 0}));
  EXPECT_EQ(count_of(checked_optimize(graph, Precision::F32), "matmul"), 2);
}

}  // namespace
}  // namespace gyrus::test
