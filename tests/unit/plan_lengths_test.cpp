// Kernels of different shapes share one text: an encoder's block at ten lengths needs no new one from the third on.
#include <set>

#include "plan_support.h"

namespace gyrus::test {
namespace {

Tensor weights(const Shape& shape) {
  Tensor t(DType::F32, shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, static_cast<double>(i % 7) * 0.1 - 0.3);
  return t;
}

// One head of attention with a residual, a norm over features and a layer behind it.
Graph encoder_block(int64_t length) {
  constexpr int64_t kWidth = 24;
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {2, length, kWidth}});
  const auto linear = [&](ValueId of, const std::string& name) {
    return graph.add("matmul", {of, graph.add_constant(name, weights({kWidth, kWidth})),
                                graph.add_constant(name + ".bias", weights({kWidth}))});
  };
  const ValueId scores = graph.add("matmul", {linear(x, "q"), linear(x, "k")}, {{"transpose_b", int64_t{1}}});
  const ValueId mixed = graph.add("matmul", {graph.add("softmax", {scores}, {{"axis", int64_t{-1}}}), linear(x, "v")});
  const ValueId sum = graph.add("add", {x, mixed});
  const Attrs last{{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{1}}};
  const ValueId centred = graph.add("sub", {sum, graph.add("reduce_mean", {sum}, last)});
  const ValueId variance = graph.add("reduce_mean", {graph.add("square", {centred})}, last);
  const ValueId normal = graph.add("mul", {centred, graph.add("rsqrt", {variance})});
  graph.add_output("y", graph.add("gelu", {linear(normal, "w")}));
  return graph;
}

TEST(Lengths, ShareTheirKernels) {
  std::set<std::string> texts;
  int at = 0;
  for (int64_t length : {17, 64, 5, 33, 100, 128, 200, 7, 250, 96}) {
    const Plan plan = make_plan(optimize(encoder_block(length), Precision::F32), default_limits());
    const size_t before = texts.size();
    for (const PlanKernel& kernel : plan.kernels) texts.insert(kernel.wgsl);
    if (++at > 2) {
      EXPECT_EQ(texts.size(), before) << "length " << length;
    }
  }
}

}  // namespace
}  // namespace gyrus::test
