#include "ops/matmul.h"

#include "ops/fused.h"
#include "ops_support.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Matmul, Shapes) {
  EXPECT_EQ(infer("matmul", {f32({2, 3}), f32({3, 5})}), f32({2, 5}));
  EXPECT_EQ(infer("matmul", {f32({3, 2}), f32({3, 5})}, {{"transpose_a", int64_t{1}}}), f32({2, 5}));
  EXPECT_EQ(infer("matmul", {f32({2, 3}), f32({5, 3})}, {{"transpose_b", int64_t{1}}}), f32({2, 5}));
  EXPECT_EQ(infer("matmul", {f32({4, 1, 2, 3}), f32({7, 3, 5}), f32({5})}), f32({4, 7, 2, 5}));
  EXPECT_EQ(infer("matmul", {typed(DType::F16, {2, 3}), typed(DType::F16, {3, 5})}), typed(DType::F16, {2, 5}));
  EXPECT_EQ(infer("matmul", {f32({2, 0}), f32({0, 5})}), f32({2, 5}));
  EXPECT_THAT(refusal("matmul", {f32({2, 3}), f32({5, 3})}), HasSubstr("over 3 elements of a and 5 of b"));
  EXPECT_THAT(refusal("matmul", {f32({3}), f32({3, 5})}), HasSubstr("two axes or more"));
  EXPECT_THAT(refusal("matmul", {f32({2, 3}), f32({3, 5}), f32({3})}), HasSubstr("bias is [3], expected [5]"));
  EXPECT_THAT(refusal("matmul", {f32({2, 2, 3}), f32({3, 3, 5})}), HasSubstr("do not broadcast"));
}

TEST(Matmul, Values) {
  const RefTensor a = ref({2, 3}, {1, 2, 3, 4, 5, 6}), b = ref({3, 2}, {1, 0, 0, 1, 2, -1});
  EXPECT_THAT(evaluate("matmul", {a, b}).data, ElementsAre(7, -1, 16, -1));
  EXPECT_THAT(evaluate("matmul", {a, b, ref({2}, {10, 20})}).data, ElementsAre(17, 19, 26, 19));
  // The same numbers as [K,M] and [N,K].
  EXPECT_THAT(evaluate("matmul", {ref({3, 2}, a.data), b}, {{"transpose_a", int64_t{1}}}).data,
              ElementsAre(11, -2, 14, -2));
  EXPECT_THAT(evaluate("matmul", {a, ref({2, 3}, b.data)}, {{"transpose_b", int64_t{1}}}).data,
              ElementsAre(1, 2, 4, 8));
}

TEST(Matmul, BroadcastsBatches) {
  const RefTensor a = ref({2, 1, 1, 2}, {1, 2, 3, 4}), b = ref({2, 2, 1}, {1, 1, 1, -1});
  const RefTensor y = evaluate("matmul", {a, b});
  EXPECT_EQ(y.shape, (Shape{2, 2, 1, 1}));
  EXPECT_THAT(y.data, ElementsAre(3, -1, 7, -1));
}

// An absent bias, and a body with a residual as its further operand.
TEST(Matmul, BodyWithAResidual) {
  Graph graph;
  Node node = make_node("matmul");
  node.inputs = {graph.add_input("a", f32({2, 3})), graph.add_input("b", f32({3, 2})), kNoValue,
                 graph.add_input("residual", f32({2}))};
  Node add = make_node("add"), relu = make_node("relu");
  add.inputs = {0, 1};
  relu.inputs = {2};
  node.body = {add, relu};
  const ValueId y = graph.add_node(node)[0];
  EXPECT_EQ(graph.type(y), f32({2, 2}));
  EXPECT_EQ(body_operands(graph.nodes()[0]), 2u);
  const RefTensor a = ref({2, 3}, {1, 2, 3, 4, 5, 6}), b = ref({3, 2}, {1, 0, 0, 1, 2, -1}), r = ref({2}, {-10, 1});
  std::vector<RefTensor> outputs(1);
  kMatmul.reference(graph.nodes()[0], {&a, &b, nullptr, &r}, outputs);
  EXPECT_THAT(outputs[0].data, ElementsAre(0, 0, 6, 0));
  node.inputs[3] = graph.add_input("other", f32({3, 2}));
  EXPECT_THROW(graph.add_node(node), Error) << "does not broadcast";
  node.inputs = {kNoValue, node.inputs[1]};
  EXPECT_THROW(graph.add_node(node), Error) << "a is not optional";
}

TEST(Gather, ShapesAndValues) {
  const TensorType data = f32({3, 4, 5});
  EXPECT_EQ(infer("gather", {data, typed(DType::I32, {2, 6})}), f32({2, 6, 4, 5}));
  EXPECT_EQ(infer("gather", {data, typed(DType::U32, {})}, {{"axis", int64_t{-1}}}), f32({3, 4}));
  EXPECT_THAT(refusal("gather", {data, f32({2})}), HasSubstr("indices are f32"));
  EXPECT_THAT(refusal("gather", {f32({0, 2}), typed(DType::I32, {2})}), HasSubstr("no elements to choose from"));
  const auto gather = [](int64_t axis, std::vector<double> indices) {
    const RefTensor x = ref({2, 3}, {1, 2, 3, 4, 5, 6}), at = ref({2}, std::move(indices));
    std::vector<RefTensor> outputs(1);
    outputs[0].data.resize(axis == 0 ? 6 : 4);
    op("gather").reference(make_node("gather", {{"axis", axis}}), {&x, &at}, outputs);
    return outputs[0].data;
  };
  EXPECT_THAT(gather(0, {1, -2}), ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(gather(1, {2, -3}), ElementsAre(3, 1, 6, 4));
  EXPECT_THROW(gather(0, {2, 0}), Error);
  EXPECT_THROW(gather(1, {0, -4}), Error);
}

TEST(UpdateSlice, ShapesAndValues) {
  const RefTensor base = ref({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(evaluate("update_slice", {base, ref({1, 2}, {8, 9})}, {{"start", int64_t{2}}}).data,
              ElementsAre(1, 2, 3, 4, 8, 9));
  EXPECT_THAT(evaluate("update_slice", {base, ref({3, 1}, {7, 8, 9})}, {{"axis", int64_t{1}}}).data,
              ElementsAre(7, 2, 8, 4, 9, 6));
  EXPECT_THAT(refusal("update_slice", {f32({3, 2}), f32({1, 2})}, {{"start", int64_t{3}}}),
              HasSubstr("expected 0 to 2"));
  EXPECT_THAT(refusal("update_slice", {f32({3, 2}), f32({4, 2})}), HasSubstr("not more there"));
  EXPECT_THAT(refusal("update_slice", {f32({3, 2}), f32({1, 2}), f32({})}), HasSubstr("expected one i32"));
  EXPECT_EQ(infer("update_slice", {f32({3, 2}), f32({1, 2}), typed(DType::U32, {})}), f32({3, 2}));
  const RefTensor value = ref({1, 2}, {8, 9}), start = ref({}, {1}), beyond = ref({}, {3});
  std::vector<RefTensor> outputs(1);
  op("update_slice").reference(make_node("update_slice"), {&base, &value, &start}, outputs);
  EXPECT_THAT(outputs[0].data, ElementsAre(1, 2, 8, 9, 5, 6));
  EXPECT_THROW(op("update_slice").reference(make_node("update_slice"), {&base, &value, &beyond}, outputs), Error);
}

}  // namespace
}  // namespace gyrus::test
