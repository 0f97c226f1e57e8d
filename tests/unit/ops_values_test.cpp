#include <cmath>

#include "gyrus/nn.h"
#include "ops_support.h"
#include "reference/reference.h"

// The references against values computed by hand or known from elsewhere.

namespace gyrus::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Known values are written with this many digits.
constexpr double kDigits = 1e-12;

auto near(double value) { return DoubleNear(value, kDigits); }

TEST(ConvValues, OneAxisByHand) {
  const RefTensor x = ref({1, 1, 5}, {1, 2, 3, 4, 5});
  const RefTensor w = ref({1, 1, 3}, {1, 10, 100});
  EXPECT_THAT(evaluate("conv", {x, w}).data, ElementsAre(321, 432, 543));
  EXPECT_THAT(evaluate("conv", {x, w, ref({1}, {1000})}).data, ElementsAre(1321, 1432, 1543));
  EXPECT_THAT(evaluate("conv", {x, w}, {{"pads", Ints{1, 2}}}).data, ElementsAre(210, 321, 432, 543, 54, 5));
  EXPECT_THAT(evaluate("conv", {x, w}, {{"stride", Ints{2}}}).data, ElementsAre(321, 543));
  EXPECT_THAT(evaluate("conv", {x, w}, {{"stride", Ints{2}}, {"pads", Ints{1, 1}}}).data, ElementsAre(210, 432, 54));
  EXPECT_THAT(evaluate("conv", {x, w}, {{"dilation", Ints{2}}}).data, ElementsAre(531));
  EXPECT_THAT(evaluate("conv", {x, w}, {{"dilation", Ints{16}}, {"pads", Ints{16, 16}}}).data,
              ElementsAre(10, 20, 30, 40, 50));
}

TEST(ConvValues, ChannelsGroupsAndBatch) {
  const RefTensor x = ref({2, 2, 1}, {1, 2, 3, 4});
  EXPECT_THAT(evaluate("conv", {x, ref({3, 2, 1}, {1, 0, 0, 1, 1, 1})}).data, ElementsAre(1, 2, 3, 3, 4, 7));
  EXPECT_THAT(evaluate("conv", {x, ref({4, 1, 1}, {1, 10, 1, 10})}, {{"groups", int64_t{2}}}).data,
              ElementsAre(1, 10, 2, 20, 3, 30, 4, 40));
}

// The definition written out with one loop for each index and no hoisting.
double conv3d_at(const RefTensor& x, const RefTensor& w, int64_t o, const Ints& at, const Ints& stride,
                 const Ints& dilation, const Ints& pad) {
  double sum = 0;
  for (int64_t c = 0; c < x.shape[1]; ++c)
    for (int64_t kd = 0; kd < w.shape[2]; ++kd)
      for (int64_t kh = 0; kh < w.shape[3]; ++kh)
        for (int64_t kw = 0; kw < w.shape[4]; ++kw) {
          const int64_t d = at[0] * stride[0] + kd * dilation[0] - pad[0];
          const int64_t h = at[1] * stride[1] + kh * dilation[1] - pad[1];
          const int64_t v = at[2] * stride[2] + kw * dilation[2] - pad[2];
          if (d < 0 || h < 0 || v < 0 || d >= x.shape[2] || h >= x.shape[3] || v >= x.shape[4]) continue;
          const int64_t xi = ((c * x.shape[2] + d) * x.shape[3] + h) * x.shape[4] + v;
          const int64_t wi = (((o * x.shape[1] + c) * w.shape[2] + kd) * w.shape[3] + kh) * w.shape[4] + kw;
          sum += x.data[static_cast<size_t>(xi)] * w.data[static_cast<size_t>(wi)];
        }
  return sum;
}

TEST(ConvValues, ThreeAxesMatchTheDefinition) {
  RefTensor x = ref({1, 2, 5, 6, 7}, {}), w = ref({3, 2, 2, 3, 3}, {});
  for (int i = 0; i < 420; ++i) x.data.push_back(std::sin(i * 1.7));
  for (int i = 0; i < 108; ++i) w.data.push_back(std::cos(i * 0.9));
  const Ints stride{1, 2, 2}, dilation{3, 1, 2}, pads{0, 1, 2, 2, 0, 1};
  const RefTensor y = evaluate("conv", {x, w}, {{"stride", stride}, {"dilation", dilation}, {"pads", pads}});
  ASSERT_EQ(y.shape, (Shape{1, 3, 4, 3, 3}));
  size_t i = 0;
  for (int64_t o = 0; o < 3; ++o)
    for (int64_t d = 0; d < 4; ++d)
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t v = 0; v < 3; ++v)
          EXPECT_NEAR(y.data[i++], conv3d_at(x, w, o, {d, h, v}, stride, dilation, pads), kDigits) << o << d << h << v;
}

TEST(ConvValues, StatisticsAreOfTheRawResult) {
  const std::vector<RefTensor> outputs =
      evaluate_all(make_node("conv", {{"stats", int64_t{1}}}), {ref({1, 1, 4}, {1, 2, 3, 6}), ref({2, 1, 1}, {1, -2})});
  EXPECT_THAT(outputs[1].data, ElementsAre(3, 3.5, -6, 14));
}

TEST(ConvValues, BodyRunsOnTheResult) {
  Node node = make_node("conv");
  node.body = {make_node("relu"), make_node("add")};
  node.body[0].inputs = {0};
  node.body[1].inputs = {1, 0};
  EXPECT_THAT(evaluate_all(node, {ref({1, 1, 3}, {-1, 2, 3}), ref({1, 1, 1}, {1})})[0].data, ElementsAre(-1, 4, 6));
}

TEST(ConvArgmaxValues, LowestOfEqualChannels) {
  const RefTensor x = ref({1, 1, 3}, {1, 0, -1});
  const RefTensor w = ref({3, 1, 1}, {1, 2, 2});
  EXPECT_THAT(evaluate("conv_argmax", {x, w}, {{"dtype", "u8"}}).data, ElementsAre(1, 0, 0));
}

TEST(NormValues, StatsAndApplyByHand) {
  const RefTensor x = ref({1, 2, 2}, {1, 3, 5, 9});
  const RefTensor stats = evaluate("norm_stats", {x});
  EXPECT_THAT(stats.data, ElementsAre(2, 1, 7, 4));
  // One group: mean 4.5; variance ((3.5^2 + 1.5^2 + 0.5^2 + 4.5^2) / 4) = 8.75.
  const double r = 1 / std::sqrt(8.75);
  EXPECT_THAT(evaluate("norm_apply", {x, stats}, {{"groups", int64_t{1}}, {"eps", 0.0}}).data,
              ElementsAre(near(-3.5 * r), near(-1.5 * r), near(0.5 * r), near(4.5 * r)));
  EXPECT_THAT(
      evaluate("norm_apply", {x, stats, ref({2}, {2, 3}), ref({2}, {10, 20})}, {{"groups", int64_t{2}}, {"eps", 0.0}})
          .data,
      ElementsAre(near(8), near(12), near(17), near(23)));
  EXPECT_THAT(evaluate("norm_apply", {x, stats}, {{"groups", int64_t{2}}, {"eps", 3.0}}).data,
              ElementsAre(near(-0.5), near(0.5), near(-2 / std::sqrt(7)), near(2 / std::sqrt(7))));
}

TEST(NormValues, InstanceAndBatchNorm) {
  const RefTensor x = ref({1, 2, 2}, {1, 3, 5, 9});
  EXPECT_THAT(evaluate("instance_norm", {x}, {{"eps", 0.0}}).data, ElementsAre(near(-1), near(1), near(-1), near(1)));
  EXPECT_THAT(evaluate("batch_norm", {x, ref({2}, {1, 5}), ref({2}, {3, 15}), ref({2}, {2, 4}), ref({2}, {0, -1})},
                       {{"eps", 1.0}})
                  .data,
              ElementsAre(near(0), near(2), near(-1), near(3)));
}

// torch.nn.functional and Abramowitz & Stegun: Phi(1) = 0.841344746068543, tanh(1), sigmoid(1), log(1 + e) and so on.
TEST(ActivationValues, KnownConstants) {
  EXPECT_THAT(at("gelu", {1}), near(0.841344746068543));
  EXPECT_THAT(at("gelu", {-1}), near(-0.158655253931457));
  EXPECT_NEAR(at("gelu", {-6}) / (-6 * 9.865876450376981e-10), 1, 1e-12);
  EXPECT_THAT(at("gelu", {1}, {{"approximate", "tanh"}}), near(0.841191990608276));
  EXPECT_THAT(at("sigmoid", {1}), near(0.731058578630005));
  EXPECT_THAT(at("silu", {-1}), near(-0.268941421369995));
  EXPECT_THAT(at("tanh", {1}), near(0.761594155955765));
  EXPECT_THAT(at("softplus", {1}), near(1.313261687518223));
  EXPECT_THAT(at("elu", {-1}), near(-0.632120558828558));
  EXPECT_THAT(at("elu", {-1}, {{"alpha", 0.5}}), near(-0.316060279414279));
  EXPECT_THAT(at("leaky_relu", {-2}), near(-0.02));
  EXPECT_THAT(at("leaky_relu", {-2}, {{"alpha", 0.5}}), near(-1));
  EXPECT_EQ(at("relu", {-2}), 0);
  EXPECT_EQ(at("relu", {2}), 2);
  EXPECT_TRUE(std::isnan(at("relu", {std::nan("")})));
}

TEST(ActivationValues, SafeFarFromZero) {
  for (const std::string op : {"gelu", "silu", "sigmoid", "tanh", "softplus", "elu", "leaky_relu", "relu"})
    for (const double x : {-1e4, 1e4}) EXPECT_TRUE(std::isfinite(at(op, {x}))) << op << " " << x;
  EXPECT_EQ(at("sigmoid", {-1e4}), 0);
  EXPECT_EQ(at("gelu", {1e4}), 1e4);
  EXPECT_EQ(at("softplus", {1e4}), 1e4);
}

TEST(ElementwiseValues, BinaryOps) {
  EXPECT_EQ(at("sub", {5, 3}), 2);
  EXPECT_EQ(at("div", {1, 4}), 0.25);
  EXPECT_EQ(at("min", {5, 3}), 3);
  EXPECT_EQ(at("max", {5, 3}), 5);
  EXPECT_EQ(at("pow", {-2, 3}), -8);
  EXPECT_EQ(at("pow", {0, 0}), 1);
  EXPECT_TRUE(std::isnan(at("pow", {-2, 0.5})));
  EXPECT_EQ(at("rsqrt", {4}), 0.5);
  EXPECT_EQ(at("square", {-3}), 9);
}

TEST(ElementwiseValues, BroadcastsBothSides) {
  EXPECT_THAT(evaluate("sub", {ref({2, 1}, {10, 20}), ref({3}, {1, 2, 3})}).data, ElementsAre(9, 8, 7, 19, 18, 17));
  EXPECT_THAT(evaluate("sub", {ref({3}, {1, 2, 3}), ref({2, 1}, {10, 20})}).data,
              ElementsAre(-9, -8, -7, -19, -18, -17));
  EXPECT_THAT(evaluate("mul", {ref({}, {2}), ref({2, 1, 2}, {1, 2, 3, 4})}).data, ElementsAre(2, 4, 6, 8));
}

TEST(ElementwiseValues, AffineClamp) {
  const Attrs attrs = {{"scale", 0.5}, {"shift", 1.0}, {"lo", 0.0}, {"hi", 2.0}};
  EXPECT_EQ(at("affine_clamp", {1}, attrs), 1.5);
  EXPECT_EQ(at("affine_clamp", {100}, attrs), 2);
  EXPECT_EQ(at("affine_clamp", {-100}, attrs), 0);
}

TEST(ElementwiseValues, CastTruncatesClampsAndRounds) {
  EXPECT_EQ(at("cast", {-1.9}, {{"to", "i32"}}), -1);
  EXPECT_EQ(at("cast", {1e12}, {{"to", "i32"}}), 2147483647.0);
  EXPECT_EQ(at("cast", {-1e12}, {{"to", "i32"}}), -2147483648.0);
  EXPECT_EQ(at("cast", {-3}, {{"to", "u32"}}), 0);
  EXPECT_EQ(at("cast", {300}, {{"to", "u8"}}), 255);
  EXPECT_EQ(at("cast", {std::nan("")}, {{"to", "i32"}}), 0);
  EXPECT_EQ(at("cast", {2049}, {{"to", "f16"}}), 2048);
  EXPECT_EQ(at("cast", {0.1}, {{"to", "f32"}}), static_cast<double>(0.1f));
}

TEST(MovementValues, ByHand) {
  const RefTensor x = ref({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(evaluate("transpose", {x}, {{"perm", Ints{1, 0}}}).data, ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(evaluate("slice", {x}, {{"starts", Ints{-1, 0}}, {"ends", Ints{9, 3}}, {"steps", Ints{1, 2}}}).data,
              ElementsAre(3, 5));
  EXPECT_THAT(evaluate("concat", {x, ref({2, 1}, {8, 9})}, {{"axis", int64_t{1}}}).data,
              ElementsAre(0, 1, 2, 8, 3, 4, 5, 9));
  EXPECT_THAT(evaluate("concat", {ref({1, 3}, {6, 7, 8}), x}, {{"axis", int64_t{0}}}).data,
              ElementsAre(6, 7, 8, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(evaluate("pad", {ref({1, 2}, {5, 6})}, {{"pads", Ints{1, 0, 0, 1}}, {"value", 7.0}}).data,
              ElementsAre(7, 7, 7, 5, 6, 7));
  EXPECT_THAT(evaluate("expand", {ref({2, 1}, {5, 6})}, {{"shape", Ints{2, 2, 2}}}).data,
              ElementsAre(5, 5, 6, 6, 5, 5, 6, 6));
  EXPECT_THAT(evaluate("reshape", {x}, {{"shape", Ints{3, 2}}}).data, ElementsAre(0, 1, 2, 3, 4, 5));
  const RefTensor cube = ref({2, 1, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(evaluate("transpose", {cube}, {{"perm", Ints{2, 1, 0}}}).data, ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(ReduceValues, ByHand) {
  const RefTensor x = ref({2, 3}, {4, -1, 2, 3, 4, 6});
  EXPECT_THAT(evaluate("reduce_sum", {x}).data, ElementsAre(18));
  EXPECT_THAT(evaluate("reduce_mean", {x}, {{"axes", Ints{0}}}).data, ElementsAre(3.5, 1.5, 4));
  EXPECT_THAT(evaluate("reduce_max", {x}, {{"axes", Ints{1}}}).data, ElementsAre(4, 6));
  EXPECT_THAT(evaluate("reduce_min", {x}, {{"axes", Ints{1}}, {"keepdims", int64_t{1}}}).data, ElementsAre(-1, 3));
  EXPECT_THAT(evaluate("reduce_max", {ref({2}, {-5, -3})}).data, ElementsAre(-3));
  const RefTensor y = ref({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(evaluate("reduce_sum", {y}, {{"axes", Ints{0, 2}}}).data, ElementsAre(14, 22));
}

TEST(ReduceValues, ArgmaxTakesTheLowestOfEquals) {
  EXPECT_THAT(evaluate("argmax", {ref({2, 3}, {1, 3, 3, 5, 5, 0})}, {{"axis", int64_t{1}}}).data, ElementsAre(1, 0));
  EXPECT_THAT(evaluate("argmax", {ref({2, 3}, {1, 3, 3, 5, 5, 0})}, {{"axis", int64_t{0}}}).data, ElementsAre(1, 1, 0));
}

TEST(ReduceValues, Softmax) {
  // exp(0), exp(ln 2), exp(ln 3) add to 6; a shift changes nothing.
  const double shift = 1e4;
  const RefTensor y =
      evaluate("softmax", {ref({3}, {shift, shift + std::log(2), shift + std::log(3)})}, {{"axis", int64_t{0}}});
  EXPECT_NEAR(y.data[0], 1.0 / 6, 1e-11);
  EXPECT_NEAR(y.data[1], 1.0 / 3, 1e-11);
  EXPECT_NEAR(y.data[2], 1.0 / 2, 1e-11);
}

// What PyTorch does where extents are equal and the scale is not 1, and with a vector in place of rows.
TEST(LayerValues, LinearAsInPyTorch) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {1, 1, 2}), weight = graph.input("weight", DType::F32, {3, 2});
  graph.output("same", interpolate(x, {2}, {.mode = Interpolation::Linear, .scale = {1.3}}));
  graph.output("rows", linear(reshape(x, {2}), weight));
  const auto y = reference::run(graph, {{"x", Tensor::from_floats({1, 1, 2}, {1, 3})},
                                        {"weight", Tensor::from_floats({3, 2}, {1, 0, 0, 1, 2, 1})}});
  EXPECT_THAT(y.at("same").data, ElementsAre(1, 3));
  EXPECT_EQ(y.at("rows").shape, Shape{3});
  EXPECT_THAT(y.at("rows").data, ElementsAre(1, 3, 5));
}

TEST(Flops, CountMultiplyAddsTwice) {
  const Node node = make_node("conv");
  const std::vector<TensorType> inputs = {f32({1, 4, 10}), f32({6, 4, 3})};
  EXPECT_EQ(op("conv").flops(node, inputs, infer_all(node, inputs)), 2.0 * 6 * 8 * 4 * 3);
}

}  // namespace
}  // namespace gyrus::test
