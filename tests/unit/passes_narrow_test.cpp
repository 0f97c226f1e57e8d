#include "core/error.h"
#include "passes_support.h"

namespace gyrus::test {
namespace {

using testing::HasSubstr;

Tensor integers(const Shape& shape, std::vector<int64_t> values) {
  Tensor tensor(DType::I64, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.as<int64_t>()[i] = values[i];
  return tensor;
}

TEST(NarrowIntegers, MakesI32AndBytes) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::I64, {3}, Layout::Plain});
  const ValueId sum = graph.add("add", {x, graph.add_constant("c", integers({3}, {-5, 0, 1 << 30}))});
  graph.add_output("sum", sum);
  graph.add_output("some", graph.add("cast", {sum}, {{"to", "bool"}}));
  graph.add_output("wide", graph.add("cast", {graph.add("cast", {x}, {{"to", "f32"}})}, {{"to", "i64"}}));
  const Graph result = narrow_integers(graph);
  for (ValueId id = 0; id < result.value_count(); ++id) {
    EXPECT_NE(result.type(id).dtype, DType::I64);
    EXPECT_NE(result.type(id).dtype, DType::Bool);
  }
  EXPECT_EQ(result.type(result.outputs()[0].value).dtype, DType::I32);
  EXPECT_EQ(result.type(result.outputs()[1].value).dtype, DType::U8);
  const auto want = reference::run(graph, {{"x", integers({3}, {5, -2, 7})}});
  Tensor narrow(DType::I32, {3});
  for (int64_t i = 0; i < 3; ++i) set(narrow, i, std::vector<double>{5, -2, 7}[static_cast<size_t>(i)]);
  expect_outputs(result, {{"x", narrow}}, want, 0);
  EXPECT_EQ(want.at("some").data, (std::vector<double>{0, 1, 1}));
}

TEST(NarrowIntegers, RefusesWhatDoesNotFit) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::I64, {1}, Layout::Plain});
  graph.add_output("y", graph.add("add", {x, graph.add_constant("far", integers({1}, {int64_t{1} << 31}))}));
  try {
    narrow_integers(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("[far] element 0 is 2147483648"));
  }
  Graph keeps;
  const ValueId state = keeps.add_state("count", {DType::I64, {1}, Layout::Plain});
  keeps.add_output("y", state);
  EXPECT_THROW(narrow_integers(keeps), Error);
}

TEST(NarrowIntegers, LeavesOthersAlone) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {2, 3}, Layout::Plain});
  graph.add_output("y", graph.add("argmax", {graph.add("exp", {x})}, {{"axis", int64_t{1}}, {"dtype", "u8"}}));
  EXPECT_EQ(print(narrow_integers(graph)), print(graph));
}

// Extents of 0 go through inference, the reference and every pass.
TEST(EmptyTensors, PassThroughEverything) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {0, 4, 6, 5}, Layout::Plain});
  const ValueId w = graph.add_constant("w", Tensor(DType::F32, {3, 4, 1, 1}));
  const ValueId y = graph.add("relu", {graph.add("group_norm", {graph.add("conv", {x, w})}, {{"groups", int64_t{3}}})});
  graph.add_output("labels", graph.add("argmax", {graph.add("softmax", {y}, {{"axis", int64_t{1}}})},
                                       {{"axis", int64_t{1}}, {"dtype", "u8"}}));
  graph.add_output("sum", graph.add("reduce_sum", {y}));
  graph.add_output("slice", graph.add("slice", {y}, {{"starts", Ints{0, 1, 6, 0}}, {"ends", Ints{9, 2, 6, 5}}}));
  graph.add_output("concat", graph.add("concat", {y, y}, {{"axis", int64_t{2}}}));
  const std::map<std::string, Tensor> inputs = {{"x", Tensor(DType::F32, {0, 4, 6, 5})}};
  const auto want = reference::run(graph, inputs);
  EXPECT_EQ(want.at("sum").data, std::vector<double>{0});
  EXPECT_EQ(want.at("slice").shape, (Shape{0, 1, 0, 5}));
  EXPECT_EQ(want.at("labels").shape, (Shape{0, 6, 5}));
  optimize(graph, Precision::F16, [&](const std::string& pass, const Graph& after) {
    SCOPED_TRACE(pass);
    expect_outputs(after, inputs, want, 0);
  });
}

TEST(EmptyTensors, HaveNoLargestElementAndNoMean) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {3, 0}, Layout::Plain});
  for (const char* op : {"reduce_max", "reduce_min", "reduce_mean"})
    EXPECT_THROW(graph.add(op, {x}, {{"axes", Ints{1}}}), Error) << op;
  EXPECT_THROW(graph.add("argmax", {x}, {{"axis", int64_t{1}}}), Error);
  EXPECT_NO_THROW(graph.add("reduce_max", {x}, {{"axes", Ints{0}}})) << "gives nothing of nothing";
}

}  // namespace
}  // namespace gyrus::test
