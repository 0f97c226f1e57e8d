#include "ops_support.h"

// Shape rules and refusals.

namespace gyrus::test {
namespace {

using testing::HasSubstr;

TEST(ConvShape, FollowsKernelStrideDilationAndPads) {
  EXPECT_EQ(infer("conv", {f32({1, 3, 10}), f32({5, 3, 3})}), f32({1, 5, 8}));
  EXPECT_EQ(infer("conv", {f32({2, 4, 9, 10}), f32({6, 4, 3, 2}), f32({6})}, {{"stride", Ints{2, 3}}}),
            f32({2, 6, 4, 3}));
  EXPECT_EQ(infer("conv", {f32({1, 1, 8, 9, 10}), f32({7, 1, 3, 3, 3})},
                  {{"dilation", Ints{1, 2, 4}}, {"pads", Ints{0, 1, 2, 1, 0, 3}}}),
            f32({1, 7, 7, 6, 7}));
  EXPECT_EQ(infer("conv", {f32({1, 6, 5}), f32({9, 2, 5})}, {{"groups", int64_t{3}}}), f32({1, 9, 1}));
}

TEST(ConvShape, AddsStatistics) {
  const std::vector<TensorType> types =
      infer_all(make_node("conv", {{"stats", int64_t{1}}}), {typed(DType::F16, {2, 3, 10}), f32({5, 3, 3})});
  ASSERT_EQ(types.size(), 2u);
  EXPECT_EQ(types[0], typed(DType::F16, {2, 5, 8}));
  EXPECT_EQ(types[1], f32({2, 5, 2}));
}

TEST(ConvShape, RefusesWithReason) {
  EXPECT_THAT(
      refusal("conv", {f32({1, 5, 8, 8, 8}), f32({5, 4, 3, 3, 3})}),
      HasSubstr("invalid-graph: [conv] weight is [5,4,3,3,3] but input has 5 channels in 1 group: expected [O,5,…]"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 3, 3})}), HasSubstr("expected as many axes"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 3}), f32({4})}),
              HasSubstr("bias is [4] but there are 5 output channels"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 9})}),
              HasSubstr("reaches over 9 voxels of spatial axis 0 but the padded input has 8"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 3})}, {{"dilation", Ints{4}}}),
              HasSubstr("reaches over 9 voxels"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({4, 1, 3})}, {{"groups", int64_t{5}}}),
              HasSubstr("do not divide into 5 groups"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 3})}, {{"stride", Ints{0}}}), HasSubstr("stride is [0]"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 3})}, {{"stride", Ints{1, 1}}}),
              HasSubstr("stride has 2 numbers, expected 1"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 3})}, {{"pads", Ints{1, -1}}}), HasSubstr("pads is [1,-1]"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 3})}, {{"padding", Ints{1}}}),
              HasSubstr("[conv] unknown attribute 'padding'"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8}), f32({5, 5, 3})}, {{"groups", int64_t{0}}}), HasSubstr("groups is 0"));
  EXPECT_THAT(refusal("conv", {f32({1, 5}), f32({5, 5})}), HasSubstr("unsupported: [conv] input is [1,5]"));
  EXPECT_THAT(refusal("conv", {typed(DType::U8, {1, 5, 8}), f32({5, 5, 3})}), HasSubstr("unsupported: [conv]"));
  EXPECT_THAT(refusal("conv", {f32({1, 5, 8})}), HasSubstr("1 inputs given, expected 2 to 3"));
  Node both = make_node("conv", {{"stats", int64_t{1}}});
  both.body = {make_node("relu")};
  both.body[0].inputs = {0};
  EXPECT_THROW(infer_all(both, {f32({1, 5, 8}), f32({5, 5, 3})}), Error);
}

TEST(ConvShape, DoesNotOverflow) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_THAT(refusal("conv", {f32({1, 1, 8}), f32({1, 1, huge})}, {{"dilation", Ints{1 << 30}}}),
              HasSubstr("size overflows"));
  EXPECT_THAT(refusal("conv", {f32({1, 1, 8}), f32({1, 1, 3})}, {{"dilation", Ints{INT64_MAX}}}),
              HasSubstr("dilation is"));
  EXPECT_THAT(refusal("conv", {f32({1, 1, 8}), f32({1, 1, 3})}, {{"pads", Ints{INT64_MAX, INT64_MAX}}}),
              HasSubstr("pads is"));
  EXPECT_THAT(refusal("reshape", {f32({8})}, {{"shape", Ints{huge, huge, -1}}}), HasSubstr("size overflows"));
}

TEST(ConvArgmaxShape, DropsTheChannels) {
  EXPECT_EQ(infer("conv_argmax", {f32({2, 5, 4, 6}), f32({18, 5, 1, 1})}, {{"dtype", "u8"}}),
            typed(DType::U8, {2, 4, 6}));
  EXPECT_THAT(refusal("conv_argmax", {f32({2, 5, 4}), f32({300, 5, 1})}, {{"dtype", "u8"}}),
              HasSubstr("300 output channels do not fit labels of u8"));
  EXPECT_EQ(infer("conv_argmax", {f32({2, 5, 4}), f32({300, 5, 1})}, {{"dtype", "u32"}}), typed(DType::U32, {2, 4}));
  EXPECT_THAT(refusal("conv_argmax", {f32({2, 5, 4}), f32({3, 5, 1})}, {{"dtype", "i32"}}),
              HasSubstr("expected u8 or u32"));
  EXPECT_THAT(refusal("conv_argmax", {f32({2, 5, 4}), f32({3, 5, 1})}), HasSubstr("'dtype' is missing"));
}

TEST(NormShape, ChecksEveryOperand) {
  EXPECT_EQ(infer("norm_stats", {typed(DType::F16, {2, 3, 4, 5})}), f32({2, 3, 2}));
  EXPECT_THAT(refusal("norm_stats", {f32({2, 3})}), HasSubstr("expected [N,C,sp…]"));
  const Attrs groups = {{"groups", int64_t{2}}};
  EXPECT_EQ(infer("norm_apply", {f32({2, 4, 5}), f32({2, 4, 2}), f32({4}), f32({4})}, groups), f32({2, 4, 5}));
  EXPECT_THAT(refusal("norm_apply", {f32({2, 4, 5}), f32({2, 3, 2})}, groups), HasSubstr("expected f32[2,4,2]"));
  EXPECT_THAT(refusal("norm_apply", {f32({2, 4, 5}), f32({2, 4, 2}), f32({4})}, groups),
              HasSubstr("one of gamma and beta"));
  EXPECT_THAT(refusal("norm_apply", {f32({2, 4, 5}), f32({2, 4, 2}), f32({4}), f32({5})}, groups),
              HasSubstr("beta is [5]"));
  EXPECT_THAT(refusal("norm_apply", {f32({2, 4, 5}), f32({2, 4, 2})}), HasSubstr("'groups' is missing"));
  EXPECT_THAT(refusal("group_norm", {f32({2, 5, 5})}, groups), HasSubstr("5 channels do not divide into 2 groups"));
  EXPECT_THAT(refusal("group_norm", {f32({2, 4, 5})}, {{"groups", int64_t{2}}, {"eps", -1.0}}), HasSubstr("eps is -1"));
  EXPECT_EQ(infer("group_norm", {f32({2, 4})}, groups), f32({2, 4}));
  EXPECT_THAT(refusal("instance_norm", {f32({2, 4, 5})}, groups), HasSubstr("unknown attribute 'groups'"));
  EXPECT_EQ(infer("batch_norm", {f32({2, 4, 5}), f32({4}), f32({4})}), f32({2, 4, 5}));
  EXPECT_THAT(refusal("batch_norm", {f32({2, 4, 5}), f32({4}), f32({3})}),
              HasSubstr("[batch_norm] var is [3] but input has 4 channels"));
}

TEST(BinaryShape, BroadcastsAsNumpy) {
  EXPECT_EQ(infer("add", {f32({4, 1, 7}), f32({3, 1, 5, 1})}), f32({3, 4, 5, 7}));
  EXPECT_EQ(infer("mul", {f32({}), f32({2, 3})}), f32({2, 3}));
  EXPECT_EQ(infer("max", {f32({}), f32({})}), f32({}));
  EXPECT_THAT(refusal("add", {f32({2, 3}), f32({2, 4})}),
              HasSubstr("shapes [2,3] and [2,4] do not broadcast: extents 3 and 4"));
}

TEST(BinaryShape, MixesOnlyFloats) {
  EXPECT_EQ(infer("add", {typed(DType::F16, {3}), typed(DType::F16, {3})}).dtype, DType::F16);
  EXPECT_EQ(infer("add", {typed(DType::F16, {3}), f32({3})}).dtype, DType::F32);
  EXPECT_EQ(infer("min", {typed(DType::I32, {3}), typed(DType::I32, {3})}).dtype, DType::I32);
  EXPECT_THAT(refusal("add", {typed(DType::I32, {3}), f32({3})}), HasSubstr("inputs mix i32 and f32; add a cast"));
  EXPECT_THAT(refusal("add", {typed(DType::U8, {3}), typed(DType::U8, {3})}),
              HasSubstr("unsupported: [add] an input is u8"));
  EXPECT_THAT(refusal("pow", {typed(DType::I32, {3}), typed(DType::I32, {3})}), HasSubstr("unsupported: [pow]"));
  EXPECT_THAT(refusal("div", {typed(DType::U32, {3}), typed(DType::U32, {3})}), HasSubstr("unsupported: [div]"));
}

TEST(UnaryShape, KeepsTypesAndRefusesUnknownAttributes) {
  EXPECT_EQ(infer("gelu", {typed(DType::F16, {2, 3})}), typed(DType::F16, {2, 3}));
  EXPECT_EQ(infer("neg", {typed(DType::I32, {2})}), typed(DType::I32, {2}));
  EXPECT_THAT(refusal("neg", {typed(DType::U32, {2})}), HasSubstr("unsupported: [neg]"));
  EXPECT_THAT(refusal("relu", {typed(DType::I32, {2})}), HasSubstr("add a cast before it"));
  EXPECT_THAT(refusal("relu", {f32({2})}, {{"alpha", 1.0}}), HasSubstr("unknown attribute 'alpha'; known: none"));
  EXPECT_THAT(refusal("gelu", {f32({2})}, {{"approximate", "erf"}}), HasSubstr("expected one of 'none', 'tanh'"));
  EXPECT_THAT(refusal("elu", {f32({2})}, {{"alpha", "one"}}), HasSubstr("'alpha' is not a number"));
  EXPECT_EQ(infer("affine_clamp", {typed(DType::U8, {2})}), f32({2}));
  EXPECT_THAT(refusal("affine_clamp", {f32({2})}, {{"lo", 1.0}, {"hi", 0.0}}), HasSubstr("lo <= hi"));
  EXPECT_EQ(infer("cast", {f32({2})}, {{"to", "u8"}}), typed(DType::U8, {2}));
  EXPECT_THAT(refusal("cast", {f32({2})}, {{"to", "f64"}}), HasSubstr("to is 'f64', expected one of 'f32'"));
}

TEST(MovementShape, Reshape) {
  EXPECT_EQ(infer("reshape", {f32({4, 6})}, {{"shape", Ints{2, -1, 3}}}), f32({2, 4, 3}));
  EXPECT_EQ(infer("reshape", {f32({1})}, {{"shape", Ints{}}}), f32({}));
  EXPECT_THAT(refusal("reshape", {f32({4, 6})}, {{"shape", Ints{5, -1}}}),
              HasSubstr("24 elements, which do not fill [5,-1]"));
  EXPECT_THAT(refusal("reshape", {f32({4, 6})}, {{"shape", Ints{-1, -1}}}), HasSubstr("at most one -1"));
  EXPECT_THAT(refusal("reshape", {f32({4, 6})}, {{"shape", Ints{4, -2}}}), HasSubstr("extents of 0 or more"));
  EXPECT_THAT(refusal("reshape", {f32({4, 6})}, {{"shape", Ints{4, 0}}}), HasSubstr("do not fill [4,0]"));
  EXPECT_THAT(refusal("reshape", {f32({0, 6})}, {{"shape", Ints{-1, 0}}}), HasSubstr("could be anything"));
  EXPECT_EQ(infer("reshape", {f32({0, 6})}, {{"shape", Ints{3, -1}}}), f32({3, 0}));
}

TEST(MovementShape, Transpose) {
  EXPECT_EQ(infer("transpose", {f32({2, 3, 4})}, {{"perm", Ints{2, 0, 1}}}), f32({4, 2, 3}));
  for (const Ints& perm : {Ints{0, 1}, Ints{0, 1, 1}, Ints{0, 1, 3}, Ints{0, 1, -1}})
    EXPECT_THAT(refusal("transpose", {f32({2, 3, 4})}, {{"perm", perm}}),
                HasSubstr("expected each axis of [2,3,4] once"));
}

TEST(MovementShape, Slice) {
  const auto slice = [](Ints starts, Ints ends, Ints steps) {
    return Attrs{{"starts", starts}, {"ends", ends}, {"steps", steps}};
  };
  EXPECT_EQ(infer("slice", {f32({10, 7})}, slice({-3, 1}, {100, 6}, {1, 2})), f32({3, 3}));
  EXPECT_EQ(infer("slice", {f32({10})}, slice({0}, {-1}, {1})), f32({9}));
  EXPECT_EQ(infer("slice", {f32({10})}, slice({0}, {10}, {4})), f32({3}));
  EXPECT_EQ(infer("slice", {f32({10})}, slice({5}, {5}, {1})), f32({0}));
  EXPECT_EQ(infer("slice", {f32({10})}, slice({5}, {2}, {3})), f32({0}));
  EXPECT_THAT(refusal("slice", {f32({10})}, slice({-11}, {5}, {1})), HasSubstr("starts at -11"));
  EXPECT_THAT(refusal("slice", {f32({10})}, slice({11}, {12}, {1})), HasSubstr("outside axis 0 of [10]"));
  EXPECT_THAT(refusal("slice", {f32({10})}, slice({0}, {5}, {0})), HasSubstr("is 0"));
  EXPECT_THAT(refusal("slice", {f32({10})}, slice({10}, {5}, {-1})), HasSubstr("outside"));
  EXPECT_THAT(refusal("slice", {f32({10, 2})}, slice({0}, {5}, {1})), HasSubstr("starts has 1 numbers"));
}

TEST(MovementShape, ConcatPadExpand) {
  EXPECT_EQ(infer("concat", {f32({2, 3}), f32({2, 4}), f32({2, 1})}, {{"axis", int64_t{-1}}}), f32({2, 8}));
  EXPECT_THAT(refusal("concat", {f32({2, 3}), f32({3, 3})}, {{"axis", int64_t{1}}}),
              HasSubstr("input 1 is [3,3] but input 0 is [2,3]"));
  EXPECT_THAT(refusal("concat", {f32({2, 3}), f32({2})}, {{"axis", int64_t{0}}}), HasSubstr("input 1 is [2]"));
  EXPECT_THAT(refusal("concat", {f32({2, 3})}, {{"axis", int64_t{2}}}),
              HasSubstr("axis 2 is outside a tensor of rank 2"));
  EXPECT_THAT(refusal("concat", {f32({2}), typed(DType::U8, {2})}, {{"axis", int64_t{0}}}),
              HasSubstr("inputs mix f32 and u8"));
  EXPECT_EQ(infer("pad", {f32({2, 3})}, {{"pads", Ints{1, 0, 2, 3}}}), f32({5, 6}));
  EXPECT_THAT(refusal("pad", {f32({2, 3})}, {{"pads", Ints{1, 0}}}), HasSubstr("pads has 2 numbers, expected 4"));
  EXPECT_THAT(refusal("pad", {f32({2})}, {{"pads", Ints{-1, 0}}}), HasSubstr("use slice to cut"));
  EXPECT_THAT(refusal("pad", {typed(DType::U8, {2})}, {{"pads", Ints{1, 0}}, {"value", -1.0}}),
              HasSubstr("does not exist in u8"));
  EXPECT_EQ(infer("expand", {f32({3, 1})}, {{"shape", Ints{2, 3, 4}}}), f32({2, 3, 4}));
  EXPECT_THAT(refusal("expand", {f32({3, 4})}, {{"shape", Ints{3, 1}}}), HasSubstr("does not broadcast to [3,1]"));
  EXPECT_THAT(refusal("expand", {f32({3, 4})}, {{"shape", Ints{4}}}), HasSubstr("does not broadcast to [4]"));
}

TEST(ReduceShape, DropsOrKeepsAxes) {
  EXPECT_EQ(infer("reduce_sum", {f32({2, 3, 4})}), f32({}));
  EXPECT_EQ(infer("reduce_sum", {f32({2, 3, 4})}, {{"axes", Ints{0, -1}}}), f32({3}));
  EXPECT_EQ(infer("reduce_max", {f32({2, 3, 4})}, {{"axes", Ints{1}}, {"keepdims", int64_t{1}}}), f32({2, 1, 4}));
  EXPECT_THAT(refusal("reduce_sum", {f32({2, 3})}, {{"axes", Ints{}}}), HasSubstr("no axis of [2,3] is reduced"));
  EXPECT_THAT(refusal("reduce_sum", {f32({})}), HasSubstr("no axis of [] is reduced"));
  EXPECT_THAT(refusal("reduce_sum", {f32({2, 3})}, {{"axes", Ints{1, -1}}}), HasSubstr("name axis 1 twice"));
  EXPECT_THAT(refusal("reduce_sum", {f32({2, 3})}, {{"keepdims", int64_t{2}}}), HasSubstr("keepdims is 2"));
  EXPECT_THAT(refusal("reduce_mean", {typed(DType::I32, {2, 3})}), HasSubstr("unsupported: [reduce_mean]"));
  EXPECT_THAT(refusal("reduce_max", {typed(DType::U8, {2, 3})}), HasSubstr("unsupported: [reduce_max]"));
  EXPECT_EQ(infer("argmax", {f32({2, 3, 4})}, {{"axis", int64_t{1}}}), typed(DType::U32, {2, 4}));
  EXPECT_EQ(infer("argmax", {f32({2, 3})}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{1}}, {"dtype", "i32"}}),
            typed(DType::I32, {2, 1}));
  EXPECT_THAT(refusal("argmax", {f32({257})}, {{"axis", int64_t{0}}, {"dtype", "u8"}}),
              HasSubstr("257 positions do not fit u8"));
  EXPECT_THAT(refusal("argmax", {f32({2})}, {{"axis", int64_t{0}}, {"dtype", "f32"}}),
              HasSubstr("expected u32, u8 or i32"));
  EXPECT_THAT(refusal("softmax", {f32({2})}, {{"axis", int64_t{1}}}), HasSubstr("axis 1 is outside"));
}

TEST(RepackShape, SetsTheLayout) {
  EXPECT_EQ(infer("repack", {f32({1, 2, 3})}, {{"to", "packed"}}).layout, Layout::Packed);
  const TensorType packed{DType::F32, {1, 2, 3}, Layout::Packed};
  EXPECT_EQ(infer("repack", {packed}, {{"to", "plain"}}), f32({1, 2, 3}));
  EXPECT_THAT(refusal("repack", {f32({2, 3})}, {{"to", "packed"}}), HasSubstr("expected floats [N,C,sp…]"));
  EXPECT_THAT(refusal("repack", {f32({1, 2, 3})}, {{"to", "nchw"}}), HasSubstr("expected 'packed' or 'plain'"));
}

TEST(ScanShape, RefusesWithReason) {
  const TensorType rows = f32({2, 7, 3, 20}), v = f32({2, 7, 3, 5});
  EXPECT_EQ(infer_all(make_node("delta_rule"), {rows, v})[1], f32({2, 3, 5, 4}));
  EXPECT_EQ(infer("delta_states", {rows, v, f32({2, 3, 5, 4})}), f32({2, 7, 3, 5, 4}));
  EXPECT_THAT(refusal("delta_rule", {f32({2, 7, 3, 21}), v}), HasSubstr("expected 5 vectors of equal length"));
  EXPECT_THAT(refusal("delta_rule", {rows, v}, {{"segment", int64_t{-1}}}), HasSubstr("segment is -1"));
  EXPECT_THAT(refusal("linear_scan", {f32({3, 4}), f32({3, 5})}, {{"axis", int64_t{0}}}),
              HasSubstr("a is [3,4] and b [3,5]"));
  EXPECT_THAT(refusal("linear_scan", {f32({3, 4}), f32({3, 4}), f32({3, 4})}, {{"axis", int64_t{0}}}),
              HasSubstr("start is [3,4], expected [1,4]"));
  EXPECT_THAT(refusal("cummax", {typed(DType::I32, {3})}, {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}}),
              HasSubstr("lowest number of f32"));
  const TensorType x = f32({1, 7, 3}), rates = f32({3, 5}), row = f32({1, 7, 5});
  EXPECT_EQ(infer_all(make_node("selective_scan"), {x, x, rates, row, row})[1], f32({1, 3, 5}));
  EXPECT_THAT(refusal("selective_scan", {x, x, rates, x, row}), HasSubstr("B is f32[1,7,3], expected f32[1,7,5]"));
  EXPECT_THAT(refusal("lstm_steps", {f32({2, 5, 8}), f32({3, 8}), f32({2, 4})}),
              HasSubstr("weight is f32[3,8], expected f32[2,8]"));
  EXPECT_EQ(infer("gru_steps", {f32({2, 5, 6}), f32({3, 6}), f32({2, 2})}), f32({2, 5, 2}));
  EXPECT_EQ(infer("group_rows", {typed(DType::I32, {9})}, {{"groups", int64_t{4}}}), typed(DType::I32, {14}));
  EXPECT_THAT(refusal("grouped_matmul", {f32({9, 5}), f32({4, 5, 3}), typed(DType::I32, {9})}),
              HasSubstr("groups are i32[9], expected i32[14]"));
}

}  // namespace
}  // namespace gyrus::test
