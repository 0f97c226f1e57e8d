// Biases taken into products.
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

}  // namespace
}  // namespace gyrus::test
