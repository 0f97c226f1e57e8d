// Norms that add a residual themselves.
#include "gyrus/ops.h"
#include "import/onnx_import.h"
#include "passes_support.h"
#include "support/onnx_writer.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;

TEST(FuseResidual, TheNormAddsAndHandsTheSumOn) {
  for (const bool others : {false, true}) {
    Graph graph;
    const Value x = graph.input("x", DType::F32, {2, 5, 24}), y = graph.input("y", DType::F32, {2, 5, 24});
    const Value sum = x + y;
    const Value before = others ? tanh(sum) : x;
    graph.output("z", layer_norm(sum) * before);
    if (others) graph.output("sum", sum);
    const Graph result = checked_optimize(graph, Precision::F32);
    EXPECT_EQ(count_of(result, "add"), 0) << print(result);
    EXPECT_EQ(count_of(result, "rows"), 1);
  }
}

TEST(FuseResidual, ASumGoesToOneNormOnly) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {5, 24}), y = graph.input("y", DType::F32, {5, 24});
  graph.output("a", layer_norm(x + y));
  const Value sum = x + y;
  graph.output("b", layer_norm(sum) + rms_norm(sum));
  const Graph result = checked_optimize(graph, Precision::F32);
  EXPECT_EQ(count_of(result, "rows"), 3);
  EXPECT_EQ(count_of(result, "add"), 1) << "the one behind the norms\n" << print(result);
}

// What the product before it can add costs no kernel there.
TEST(FuseResidual, NotWhatAProductAdds) {
  Net net;
  const ValueId x = net.input({5, 24});
  const ValueId sum = net.add("add", {net.add("matmul", {x, net.constant("w", {24, 24})}), x});
  const Graph result = checked_optimize(net.done(net.add("add", {net.add("layer_norm", {sum}), sum})), Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("matmul", "rows", "add"));
}

TEST(FuseResidual, NotBroadcastSumsNorDifferences) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {5, 24}), y = graph.input("y", DType::F32, {24});
  graph.output("a", layer_norm(x + y));
  graph.output("b", layer_norm(x - tanh(x)));
  const Graph result = checked_optimize(graph, Precision::F32);
  EXPECT_THAT(ops_of(result), ElementsAre("add", "rows", "fused", "rows"));
}

TEST(FuseResidual, OfAnOnnxModel) {
  using namespace onnx_file;
  const std::string graph =
      input("x", Float, {2, 3, 4}) + input("skip", Float, {2, 3, 4}) +
      initializer(tensor<float>("gamma", Float, {4}, {1, 2, 3, 4})) +
      node("SkipSimplifiedLayerNormalization", {"x", "skip", "gamma"}, {"y", "", "", "sum"}, {}, "com.microsoft") +
      output("y") + output("sum");
  const std::string file = model(graph, opset(17) + opset(1, "com.microsoft"));
  const onnx::Imported imported = onnx::import_model(onnx::read_model(bytes_of(std::string_view(file)), "test"), {});
  const Graph result = checked_optimize(imported.graph, Precision::F32);
  EXPECT_EQ(count_of(result, "rows"), 1);
  EXPECT_EQ(count_of(result, "add"), 0) << print(result);
}

}  // namespace
}  // namespace gyrus::test
