#include "ops/fused.h"

#include "ops/elementwise.h"
#include "ops_support.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Node step(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
  Node node = make_node(op, std::move(attrs));
  node.inputs = std::move(inputs);
  return node;
}

// relu(a * b) + a
Node sample() {
  Node node = make_node("fused");
  node.inputs = {7, 9};
  node.body = {step("mul", {0, 1}), step("relu", {2}), step("add", {3, 0})};
  return node;
}

TEST(Fused, InfersThroughItsSteps) {
  EXPECT_EQ(infer_all(sample(), {f32({4, 1}), f32({3})})[0], f32({4, 3}));
  EXPECT_EQ(infer_all(sample(), {typed(DType::F16, {2}), f32({2})})[0], f32({2}));
  Node casts = make_node("fused");
  casts.inputs = {0};
  casts.body = {step("affine_clamp", {0}), step("cast", {1}, {{"to", "u8"}})};
  EXPECT_EQ(infer_all(casts, {typed(DType::I32, {5})})[0], typed(DType::U8, {5}));
}

TEST(Fused, Refuses) {
  EXPECT_THAT(refusal("fused", {f32({2})}), HasSubstr("has no steps"));
  Node node = sample();
  node.body[0].inputs = {0, 2};
  EXPECT_THROW(infer_all(node, {f32({2}), f32({2})}), Error);
  node = sample();
  EXPECT_THROW(infer_all(node, {typed(DType::I32, {2}), typed(DType::I32, {2})}), Error) << "relu takes floats";
  node.body.assign(kMaxBodySteps + 1, step("relu", {0}));
  EXPECT_THROW(infer_all(node, {f32({2}), f32({2})}), Error);
}

TEST(Fused, Evaluates) {
  EXPECT_THAT(eval_body(sample(), {3, -2}), ElementsAre(3));
  EXPECT_THAT(evaluate_all(sample(), {ref({2, 1}, {2, 3}), ref({2}, {5, -1})})[0].data, ElementsAre(12, 2, 18, 3));
  EXPECT_EQ(body_operands(sample()), 2u);
  EXPECT_EQ(body_operands(make_node("conv")), 1u);
}

TEST(Fused, KnowsWhetherItKeepsZero) {
  EXPECT_TRUE(body_keeps_zero(sample()));
  Node node = sample();
  node.body.push_back(step("sigmoid", {4}));
  EXPECT_FALSE(body_keeps_zero(node));
  EXPECT_TRUE(body_keeps_zero(make_node("conv"))) << "no body";
}

TEST(Fused, WritesOneLetAStep) {
  const BodyText text = body_wgsl(sample(), {"a", "b"}, wgsl::vec4f);
  EXPECT_EQ(text.statements,
            "  let step0 = (a * b);\n"
            "  let step1 = act_relu(step0);\n"
            "  let step2 = (step1 + a);\n");
  EXPECT_THAT(text.results, ElementsAre("step2"));
  EXPECT_THAT(text.types, ElementsAre(wgsl::vec4f));
  const BodyText nothing = body_wgsl(make_node("conv"), {"x"}, wgsl::f32);
  EXPECT_EQ(nothing.statements, "");
  EXPECT_EQ(nothing.result(), "x");
}

TEST(Fused, FollowsTypesThroughCasts) {
  Node node = make_node("fused");
  node.inputs = {0};
  node.body = {step("affine_clamp", {0}, {{"scale", 2.0}, {"lo", 0.0}, {"hi", 1.0}}),
               step("cast", {1}, {{"to", "i32"}}), step("neg", {2}), step("cast", {3}, {{"to", "u8"}})};
  const BodyText text = body_wgsl(node, {"x"}, wgsl::u32);
  EXPECT_THAT(text.types, ElementsAre(wgsl::u32));
  EXPECT_THAT(text.statements, HasSubstr("let step0 = clamp(f32(x) * 2.0 + 0.0, f32(0.0), f32(1.0));"));
  EXPECT_THAT(text.statements,
              HasSubstr("let step1 = select(select(i32(clamp(step0, f32(-2147483648.0), f32(2147483520.0))), "
                        "i32(2147483647), step0 >= f32(2147483648.0)), i32(0), "
                        "((bitcast<u32>(step0) & u32(0x7fffffffu)) > u32(0x7f800000u)));"));
  EXPECT_THAT(text.statements, HasSubstr("let step2 = (-step1);"));
  EXPECT_THAT(text.statements, HasSubstr("let step3 = u32(clamp(step2, i32(0), i32(255)));"));
}

TEST(Wgsl, NumbersReadBackAsTheSameFloat) {
  EXPECT_EQ(wgsl_number(1), "1.0");
  EXPECT_EQ(wgsl_number(-0.5), "-0.5");
  EXPECT_EQ(wgsl_number(0.1), "0.10000000149011612");
  EXPECT_EQ(wgsl_number(1e-20), "9.9999996826552254e-21");
  EXPECT_EQ(wgsl_number(1e300), "3.4028234663852886e+38");
}

TEST(Wgsl, EveryElementwiseOpWritesAnExpression) {
  for (const Elementwise& row : elementwise_rows()) {
    const Attrs attrs = row.name == "cast" ? Attrs{{"to", "f16"}} : Attrs{};
    const std::string text = row_wgsl(row, attrs, {"aa", "bb", "cc"}, wgsl::vec4f, "ii");
    EXPECT_EQ(text.find("ii") != std::string::npos, row.indexed) << row.name;
    for (size_t k = row.indexed || row.only_trains ? 1 : 0; k < row.arity; ++k)
      EXPECT_THAT(text, HasSubstr(std::string(2, "abc"[k]))) << row.name;
    EXPECT_THAT(text, testing::Not(HasSubstr("$"))) << row.name;
  }
}

}  // namespace
}  // namespace gyrus::test
