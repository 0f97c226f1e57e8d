// Narrow, wide and quantised whole numbers, and what devices have no type for.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "import/onnx_import.h"
#include "reference/reference.h"
#include "support/onnx_writer.h"

namespace gyrus {
namespace {

using namespace test::onnx_file;

constexpr int kU16 = 4, kI32 = 6, kU32 = 12, kBf16 = 16, kU4 = 21, kI4 = 22;

// The values of "y", whose operands are initializers or inputs.
std::vector<double> run(const std::string& graph, const std::map<std::string, Tensor>& inputs = {},
                        const std::string& more = opset(23) + opset(1, "com.microsoft")) {
  const std::string file = model(graph + output("y"), more);
  const onnx::Imported imported = onnx::import_model(onnx::read_model(bytes_of(std::string_view(file)), "test"), {});
  return reference::run(imported.graph, inputs).at("y").data;
}

Tensor whole(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) set(tensor, static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::string constant(const std::string& name, const std::vector<int64_t>& values) {
  return initializer(tensor<int64_t>(name, Int64, {static_cast<int64_t>(values.size())}, values));
}

using Numbers = std::vector<double>;

TEST(OnnxTypes, FourBitsLieTwoToAByte) {
  const std::string bytes = "\x3f\x08";  // 15, 3, 8 or -1, 3, -8
  for (const int type : {kU4, kI4}) {
    const std::string raw = number(1, 3) + number(2, type) + text(8, "w") + text(9, bytes);
    EXPECT_EQ(run(initializer(raw) + node("Cast", {"w"}, {"y"}, attribute("to", Float))),
              type == kU4 ? (Numbers{15, 3, 8}) : (Numbers{-1, 3, -8}));
    const std::string typed = number(1, 3) + number(2, type) + text(8, "w") + number(5, 0x3f) + number(5, 0x08);
    EXPECT_EQ(run(initializer(typed) + node("Cast", {"w"}, {"y"}, attribute("to", Float))),
              type == kU4 ? (Numbers{15, 3, 8}) : (Numbers{-1, 3, -8}));
    const std::string longer = number(1, 5) + number(2, type) + text(8, "w") + text(9, bytes);
    EXPECT_THROW(run(initializer(longer) + node("Cast", {"w"}, {"y"}, attribute("to", Float))), Error);
  }
  const Tensor x = Tensor::from_floats({4}, {9, -9, 20, 7});
  EXPECT_EQ(run(input("x", Float, {4}) + node("Cast", {"x"}, {"y"}, attribute("to", kI4)), {{"x", x}}),
            (Numbers{-7, 7, 4, 7}));
}

TEST(OnnxTypes, CastsOfWholeNumbersKeepTheLowerBits) {
  const auto cast = [](int from, DType dtype, int to, double value) {
    return run(input("x", from, {1}) + node("Cast", {"x"}, {"y"}, attribute("to", to)),
               {{"x", whole(dtype, {1}, {value})}})[0];
  };
  EXPECT_EQ(cast(kI32, DType::I32, kU32, -1), 4294967295.0);
  EXPECT_EQ(cast(kU32, DType::U32, kI32, 4294967295.0), -1);
  EXPECT_EQ(cast(kU32, DType::U32, kI32, 7), 7);
  EXPECT_EQ(cast(Float, DType::F32, kU16, -1), 65535);
  EXPECT_EQ(run(constant("x", {-2}) + node("Cast", {"x"}, {"y"}, attribute("to", kU32))), Numbers{4294967294.0});
}

TEST(OnnxTypes, Bfloat16IsRounded) {
  const Tensor x = Tensor::from_floats({4}, {1.00390625F, 1.01171875F, -3e38F, 0});
  const Numbers y = run(input("x", Float, {4}) + node("Cast", {"x"}, {"y"}, attribute("to", kBf16)), {{"x", x}});
  EXPECT_EQ(y[0], 1);         // ties to even
  EXPECT_EQ(y[1], 1.015625);  // and up
  EXPECT_NEAR(y[2], -3e38, 1e36);
  EXPECT_EQ(y[3], 0);
}

TEST(OnnxTypes, WholeNumbersAreDividedMultipliedAndReduced) {
  const std::map<std::string, Tensor> x = {{"x", whole(DType::I32, {2, 2}, {-7, 7, 9, 2})}};
  const std::string graph = input("x", kI32, {2, 2}) + initializer(tensor<int32_t>("two", kI32, {2, 2}, {2, -2, 4, 1}));
  EXPECT_EQ(run(graph + node("Div", {"x", "two"}, {"y"}), x), (Numbers{-3, -3, 2, 2}));
  EXPECT_EQ(run(graph + node("MatMul", {"x", "two"}, {"y"}), x), (Numbers{14, 21, 26, -16}));
  EXPECT_EQ(run(graph + node("ReduceMean", {"x"}, {"y"}, attribute("keepdims", 0)), x), Numbers{2});
  const std::string words = initializer(tensor<uint32_t>("a", kU32, {2}, {4000000000u, 3})) +
                            initializer(tensor<uint32_t>("b", kU32, {2}, {4000000001u, 0}));
  EXPECT_EQ(run(words + node("Mul", {"a", "b"}, {"y"})), (Numbers{1688938496, 0}));
  EXPECT_EQ(run(words + node("Sign", {"b"}, {"y"})), (Numbers{1, 0}));
}

TEST(OnnxTypes, BackwardsASliceBeginsAtAnElement) {
  const Tensor x = Tensor::from_floats({1, 3}, {1, 2, 3});
  const std::string graph = input("x", Float, {1, 3}) + constant("start", {-2}) + constant("end", {-5}) +
                            constant("axis", {0}) + constant("step", {-1}) +
                            node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
  EXPECT_EQ(run(graph, {{"x", x}}), (Numbers{1, 2, 3}));
}

TEST(OnnxTypes, PadsAroundWhatIsLeft) {
  const Tensor x = Tensor::from_floats({3}, {1, 2, 3});
  const std::string graph = input("x", Float, {3}) + constant("pads", {1, -1});
  EXPECT_EQ(run(graph + node("Pad", {"x", "pads"}, {"y"}, attribute("mode", "wrap")), {{"x", x}}), (Numbers{2, 1, 2}));
}

// As PyTorch has it.
TEST(OnnxTypes, CubicSamplesReachOverTheBorderEachForItself) {
  const std::string graph =
      input("x", Float, {1, 1, 1, 3}) + input("g", Float, {1, 1, 2, 2}) +
      node("GridSample", {"x", "g"}, {"y"},
           attribute("mode", "cubic") + attribute("padding_mode", "border") + attribute("align_corners", 1));
  const Numbers y = run(graph, {{"x", Tensor::from_floats({1, 1, 1, 3}, {0, 1, 4})},
                                {"g", Tensor::from_floats({1, 1, 2, 2}, {1.2F, 0, -1.3F, 0})}});
  EXPECT_NEAR(y[0], 4.288, 1e-5);
  EXPECT_NEAR(y[1], -0.11025, 1e-5);
}

TEST(OnnxTypes, QuantisedSumsAndMeans) {
  const auto f = [](const char* name, float value) { return initializer(tensor<float>(name, Float, {}, {value})); };
  const auto u = [](const char* name, uint8_t value) { return initializer(tensor<uint8_t>(name, Uint8, {}, {value})); };
  const std::string graph = input("x", Uint8, {1, 1, 2, 2}) + f("s", 0.5F) + u("z", 100) + f("t", 0.25F) + u("o", 10);
  const std::map<std::string, Tensor> x = {{"x", whole(DType::U8, {1, 1, 2, 2}, {100, 102, 90, 110})}};
  const std::string d = "com.microsoft";
  EXPECT_EQ(run(graph + node("QLinearAdd", {"x", "s", "z", "x", "s", "z", "t", "o"}, {"y"}, {}, d), x),
            (Numbers{10, 18, 0, 50}));
  EXPECT_EQ(
      run(graph + node("QLinearGlobalAveragePool", {"x", "s", "z", "t", "o"}, {"y"}, attribute("channels_last", 0), d),
          x),
      Numbers{11});
  EXPECT_EQ(
      run(graph + node("QLinearConcat", {"t", "o", "x", "s", "z", "x", "s", "z"}, {"y"}, attribute("axis", 1), d), x),
      (Numbers{10, 14, 0, 30, 10, 14, 0, 30}));
}

}  // namespace
}  // namespace gyrus
