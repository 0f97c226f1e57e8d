// Weights of few bits stay packed: what products and gathers of them give, against sums in doubles of what the file
// says, and the bytes that a plan of them has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/limits.h"
#include "import/onnx_import.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "reference/reference.h"
#include "support/onnx_writer.h"

namespace gyrus::packed_weights {
namespace {

using namespace test::onnx_file;
using testing::HasSubstr;

constexpr int kInt8 = 3, kInt32 = 6, kUint4 = 21, kInt4 = 22;

onnx::Imported import_bytes(const std::string& graph, onnx::ImportOptions options = {}) {
  const std::string file = model(graph, opset(21) + opset(1, "com.microsoft"));
  return onnx::import_model(onnx::read_model(bytes_of(std::string_view(file)), options.subject), options);
}

std::string refusal(const std::string& graph) {
  try {
    import_bytes(graph);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

int64_t count(const Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op == op; });
}

uint64_t constant_bytes(const Graph& graph) {
  uint64_t bytes = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) bytes += graph.constant(id).data.size();
  return bytes;
}

// Small numbers that differ.
std::vector<float> numbers(size_t size, int seed) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + seed) * (0.5 + static_cast<double>(i % 5)));
  return values;
}

std::vector<uint8_t> bytes(size_t size, int seed) {
  std::vector<uint8_t> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = static_cast<uint8_t>((i + 1) * 2654435761u >> (9 + seed));
  return values;
}

// `sizes`: the sums of what the sums add up, without signs. Weights are rounded to f32, which is 6e-8 of each.
void expect_near(const std::vector<double>& found, const std::vector<double>& wanted,
                 const std::vector<double>& sizes) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], 7e-8 * std::abs(sizes[i])) << "element " << i;
}

// x [rows, k] by weights [n][k], in doubles.
std::vector<double> product(const std::vector<float>& x, const std::vector<std::vector<double>>& w) {
  std::vector<double> y;
  const size_t k = w[0].size();
  for (size_t r = 0; r < x.size() / k; ++r)
    for (const std::vector<double>& row : w) {
      double sum = 0;
      for (size_t i = 0; i < k; ++i) sum += x[r * k + i] * row[i];
      y.push_back(sum);
    }
  return y;
}

std::vector<double> sizes(std::vector<float> x, std::vector<std::vector<double>> w) {
  for (float& value : x) value = std::abs(value);
  for (std::vector<double>& row : w)
    for (double& value : row) value = std::abs(value);
  return product(x, w);
}

struct Bits {
  int64_t bits, block, k;
  enum { None, Bytes, Floats, Odd } zeros;
  bool packed = true;
};

// A MatMulNBits with 3 rows of x and 5 of weights; what its weights are by the words of its documentation.
std::string few_bits(const Bits& b, std::vector<std::vector<double>>& w, const std::string& more = {}) {
  constexpr int64_t kRows = 5;
  const int64_t blocks = (b.k + b.block - 1) / b.block, blob = b.block * b.bits / 8,
                zero_row = (blocks * b.bits + 7) / 8;
  const std::vector<uint8_t> q = bytes(static_cast<size_t>(kRows * blocks * blob), 3),
                             z = bytes(static_cast<size_t>(kRows * zero_row), 5);
  const std::vector<float> scales = numbers(static_cast<size_t>(kRows * blocks), 2);
  const auto field = [&](const std::vector<uint8_t>& from, int64_t byte, int64_t i) {
    const int64_t bit = i * b.bits;
    return static_cast<double>(from[static_cast<size_t>(byte + bit / 8)] >> (bit % 8) & ((1 << b.bits) - 1));
  };
  std::vector<float> floats;
  w.assign(kRows, {});
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t i = 0; i < b.k; ++i) {
      const int64_t block = i / b.block;
      double zero = std::exp2(b.bits - 1);
      if (b.zeros == Bits::Bytes) zero = field(z, row * zero_row, block);
      if (b.zeros == Bits::Floats) zero = static_cast<double>((row + block) % 4);
      if (b.zeros == Bits::Odd) zero = static_cast<double>(row + block) + 0.5;
      if (i % b.block == 0) floats.push_back(static_cast<float>(zero));
      w[static_cast<size_t>(row)].push_back((field(q, (row * blocks + block) * blob, i % b.block) - zero) *
                                            scales[static_cast<size_t>(row * blocks + block)]);
    }
  std::string graph = input("x", Float, {3, b.k}) + initializer(tensor("b", Uint8, {kRows, blocks, blob}, q)) +
                      initializer(tensor("s", Float, {kRows * blocks}, scales));
  std::vector<std::string> inputs = {"x", "b", "s"};
  if (b.zeros == Bits::Bytes) graph += initializer(tensor("z", Uint8, {kRows * zero_row}, z));
  if (b.zeros == Bits::Floats || b.zeros == Bits::Odd)
    graph += initializer(tensor("z", Float, {kRows * blocks}, floats));
  if (b.zeros != Bits::None) inputs.push_back("z");
  if (!more.empty()) inputs = {"x", "b", "s", "", more};
  return graph +
         node(
             "MatMulNBits", inputs, {"y"},
             attribute("K", b.k) + attribute("N", kRows) + attribute("bits", b.bits) + attribute("block_size", b.block),
             "com.microsoft") +
         output("y");
}

TEST(OnnxPacked, MatMulNBitsOfAllBitsBlocksAndZeros) {
  for (const Bits& b :
       {Bits{4, 32, 96, Bits::None}, Bits{4, 32, 96, Bits::Bytes}, Bits{4, 16, 80, Bits::Bytes},
        Bits{4, 128, 200, Bits::Floats}, Bits{4, 32, 77, Bits::Bytes}, Bits{8, 32, 96, Bits::None},
        Bits{8, 64, 77, Bits::Bytes}, Bits{2, 32, 96, Bits::None}, Bits{2, 16, 50, Bits::Bytes},
        Bits{4, 64, 48, Bits::Bytes}, Bits{4, 32, 96, Bits::Odd, false}, Bits{4, 8, 96, Bits::None, false}}) {
    SCOPED_TRACE(cat(b.bits, " bits, blocks of ", b.block, ", ", b.k, " columns, zeros ", static_cast<int>(b.zeros)));
    std::vector<std::vector<double>> w;
    const onnx::Imported imported = import_bytes(few_bits(b, w));
    const std::vector<float> x = numbers(static_cast<size_t>(3 * b.k), 1);
    EXPECT_EQ(count(imported.graph, "block_matmul"), b.packed);
    EXPECT_EQ(count(imported.graph, "matmul"), !b.packed);
    expect_near(reference::run(imported.graph, {{"x", Tensor::from_floats({3, b.k}, x)}}).at("y").data, product(x, w),
                sizes(x, w));
  }
}

TEST(OnnxPacked, GroupsInAnotherOrderAreRefused) {
  std::vector<std::vector<double>> w;
  const std::string graph = few_bits({4, 32, 96, Bits::None}, w, "g");
  EXPECT_THAT(refusal(initializer(tensor<int32_t>("g", kInt32, {96}, std::vector<int32_t>(96))) + graph),
              HasSubstr("g_idx"));
}

enum class Scales { One, Rows, Columns, Blocks };

// A DequantizeLinear of [k, n], or of [n, k] where `turned`, and what it gives as [n][k].
struct Quantized {
  int type = kInt8;
  int64_t k = 64, n = 6;
  bool turned = false, zeros = true;
  Scales scales = Scales::Rows;  // of the product's rows of weights
  int64_t block = 32;

  std::string nodes(std::vector<std::vector<double>>& w) const {
    const bool four = type == kInt4 || type == kUint4, has_sign = type == kInt8 || type == kInt4;
    const std::vector<int64_t> shape = turned ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
    const size_t along = turned ? 1 : 0, across = 1 - along;  // axes
    std::vector<int64_t> scale_shape;
    if (scales == Scales::Rows) scale_shape = {n};
    if (scales == Scales::Columns) scale_shape = {k};
    if (scales == Scales::Blocks) {
      scale_shape = shape;
      scale_shape[along] = (k + block - 1) / block;
    }
    size_t size = 1;
    for (const int64_t extent : scale_shape) size *= static_cast<size_t>(extent);
    const std::vector<uint8_t> q = bytes(static_cast<size_t>(four ? (n * k + 1) / 2 : n * k), 4),
                               z = bytes(four ? (size + 1) / 2 : size, 6);
    const std::vector<float> s = numbers(size, 7);
    const auto value = [&](const std::vector<uint8_t>& from, int64_t i) {
      const int raw = four ? from[static_cast<size_t>(i / 2)] >> (i % 2 * 4) & 15 : from[static_cast<size_t>(i)];
      const int half = four ? 8 : 128;
      return static_cast<double>(has_sign ? (raw ^ half) - half : raw);
    };
    w.assign(static_cast<size_t>(n), {});
    for (int64_t row = 0; row < n; ++row)
      for (int64_t i = 0; i < k; ++i) {
        int64_t at = 0;
        if (scales == Scales::Rows) at = row;
        if (scales == Scales::Columns) at = i;
        if (scales == Scales::Blocks) at = turned ? row * scale_shape[1] + i / block : i / block * n + row;
        w[static_cast<size_t>(row)].push_back(
            (value(q, turned ? row * k + i : i * n + row) - (zeros ? value(z, at) : 0)) * s[static_cast<size_t>(at)]);
      }
    std::string made = initializer(tensor("q", type, shape, q)) + initializer(tensor("s", Float, scale_shape, s));
    if (zeros) made += initializer(tensor("z", type, scale_shape, z));
    const auto axis = static_cast<int64_t>(scales == Scales::Rows ? across : along);
    std::vector<std::string> inputs = {"q", "s"};
    if (zeros) inputs.push_back("z");
    return made + node("DequantizeLinear", inputs, {"w"},
                       attribute("axis", axis) + attribute("block_size", scales == Scales::Blocks ? block : 0));
  }
};

struct Use {
  Quantized from;
  std::string node;  // from x and w to y
  bool packed = true;
};

TEST(OnnxPacked, ProductsWithDequantizedMatrices) {
  const std::string matmul = node("MatMul", {"x", "w"}, {"y"}),
                    gemm = node("Gemm", {"x", "w"}, {"y"}, attribute("transB", 1)),
                    turned = node("Transpose", {"w"}, {"t"}, attribute("perm", std::vector<int64_t>{1, 0})) +
                             node("MatMul", {"x", "t"}, {"y"});
  for (const Use& use :
       {Use{{kInt8}, matmul}, Use{{Uint8}, matmul}, Use{{kInt4}, matmul}, Use{{kUint4}, matmul},
        Use{{.type = kUint4, .zeros = false}, matmul}, Use{{.type = kInt8, .zeros = false}, matmul},
        Use{{.type = kInt8, .scales = Scales::One}, matmul}, Use{{.type = Uint8, .scales = Scales::Blocks}, matmul},
        Use{{.type = kInt4, .k = 77, .n = 5, .scales = Scales::Blocks, .block = 16}, matmul},
        Use{{.type = kInt8, .turned = true}, gemm},
        Use{{.type = kUint4, .turned = true, .scales = Scales::Blocks}, gemm},
        Use{{.type = kInt4, .turned = true}, turned}, Use{{.type = kInt8, .scales = Scales::Columns}, matmul, false},
        Use{{.type = kInt8, .scales = Scales::Blocks, .block = 8}, matmul, false},
        Use{{.type = kInt8, .k = 4}, matmul, false}}) {
    SCOPED_TRACE(cat("type ", use.from.type, use.from.turned ? " turned" : "", ", scales ",
                     static_cast<int>(use.from.scales), ", k ", use.from.k, ", blocks of ", use.from.block));
    std::vector<std::vector<double>> w;
    const std::string nodes = use.from.nodes(w);
    const onnx::Imported imported = import_bytes(input("x", Float, {3, use.from.k}) + nodes + use.node + output("y"));
    EXPECT_EQ(count(imported.graph, "block_matmul"), use.packed);
    const std::vector<float> x = numbers(static_cast<size_t>(3 * use.from.k), 1);
    expect_near(reference::run(imported.graph, {{"x", Tensor::from_floats({3, use.from.k}, x)}}).at("y").data,
                product(x, w), sizes(x, w));
  }
}

TEST(OnnxPacked, WhatIsTrainedReadsFloats) {
  std::vector<std::vector<double>> w;
  const std::string nodes = Quantized{.type = kInt8, .scales = Scales::One}.nodes(w);
  const std::string graph = input("x", Float, {3, 64}) + nodes + node("MatMul", {"x", "w"}, {"y"}) + output("y");
  onnx::ImportOptions options;
  EXPECT_EQ(count(import_bytes(graph, options).graph, "block_matmul"), 1);
  options.parameters = true;  // packed products have no gradient
  EXPECT_EQ(count(import_bytes(graph, options).graph, "block_matmul"), 0);
}

TEST(OnnxPacked, GemmScalesAddsAndTurns) {
  for (const bool plain : {true, false}) {
    std::vector<std::vector<double>> w;
    const Quantized from{.type = kInt8};
    const std::vector<float> x = numbers(3 * 64, 1), bias = numbers(6, 8);
    const std::string graph = from.nodes(w) + input("x", Float, {64, 3}) + initializer(tensor("c", Float, {6}, bias)) +
                              node("Gemm", {"x", "w", "c"}, {"y"},
                                   attribute("transA", 1) + attribute("alpha", plain ? 1.0F : 0.5F) +
                                       attribute("beta", plain ? 1.0F : -2.0F)) +
                              output("y");
    const onnx::Imported imported = import_bytes(graph);
    EXPECT_EQ(count(imported.graph, "block_matmul"), 1);
    std::vector<float> turned(x.size());
    for (size_t i = 0; i < x.size(); ++i) turned[i % 64 * 3 + i / 64] = x[i];
    std::vector<double> wanted = product(x, w), most = sizes(x, w);
    for (size_t i = 0; i < wanted.size(); ++i)
      wanted[i] = plain ? wanted[i] + bias[i % 6] : wanted[i] * 0.5 - 2 * bias[i % 6];
    expect_near(reference::run(imported.graph, {{"x", Tensor::from_floats({64, 3}, turned)}}).at("y").data, wanted,
                most);
  }
}

// An embedding that is also the output's matrix is packed once.
TEST(OnnxPacked, RowsAndProductsShareAMatrix) {
  std::vector<std::vector<double>> w;
  const Quantized from{.type = kInt4, .turned = true, .scales = Scales::Blocks};
  const onnx::Imported imported = import_bytes(from.nodes(w) + input("at", Int64, {2, 2}) +
                                               node("Gather", {"w", "at"}, {"rows"}) + node("Transpose", {"w"}, {"t"}) +
                                               node("MatMul", {"rows", "t"}, {"y"}) + output("rows") + output("y"));
  EXPECT_EQ(count(imported.graph, "block_rows"), 1);
  EXPECT_EQ(count(imported.graph, "block_matmul"), 1);
  EXPECT_LT(constant_bytes(imported.graph), 6u * 64 * 4 / 4);
  Tensor at(DType::I64, {2, 2});
  for (const auto& [i, row] : std::vector<std::pair<int64_t, double>>{{0, 3}, {1, 0}, {2, -1}, {3, 3}}) set(at, i, row);
  const auto found = reference::run(imported.graph, {{"at", at}});
  std::vector<float> rows;
  for (const size_t row : {3, 0, 5, 3})
    for (const double value : w[row]) rows.push_back(static_cast<float>(value));
  expect_near(found.at("rows").data, std::vector<double>(rows.begin(), rows.end()),
              std::vector<double>(rows.begin(), rows.end()));
  expect_near(found.at("y").data, product(rows, w), sizes(rows, w));
}

TEST(OnnxPacked, GatherBlockQuantized) {
  for (const bool signs : {true, false}) {
    const std::vector<uint8_t> q = bytes(4 * 32, 2), z = bytes(4, 3);
    const std::vector<float> s = numbers(8, 4);
    const std::string graph =
        initializer(signs ? tensor("q", kInt4, {4, 64}, q) : tensor("q", Uint8, {4, 32}, q)) +
        initializer(tensor("s", Float, {4, 2}, s)) +
        (signs ? initializer(tensor("z", kInt4, {4, 2}, z)) : std::string()) + input("at", Int64, {3}) +
        node("GatherBlockQuantized",
             signs ? std::vector<std::string>{"q", "at", "s", "z"} : std::vector<std::string>{"q", "at", "s"}, {"y"},
             attribute("block_size", 32), "com.microsoft") +
        output("y");
    Tensor at(DType::I64, {3});
    for (const int64_t i : {0, 1, 2}) set(at, i, static_cast<double>(2 - i));
    std::vector<double> wanted;
    for (const size_t row : {2, 1, 0})
      for (size_t i = 0; i < 64; ++i) {
        const int raw = q[row * 32 + i / 2] >> (i % 2 * 4) & 15, zero = z[row] >> (i / 32 * 4) & 15;
        const int value = signs ? ((raw ^ 8) - 8) - ((zero ^ 8) - 8) : raw - 8;
        wanted.push_back(value * static_cast<double>(s[row * 2 + i / 32]));
      }
    expect_near(reference::run(import_bytes(graph).graph, {{"at", at}}).at("y").data, wanted, wanted);
  }
}

TEST(OnnxPacked, FourBitsLieTwoToAByte) {
  const std::string half = initializer(tensor<uint8_t>("q", kInt4, {3}, {0x21, 0x8f}));
  const onnx::Imported imported = import_bytes(half + node("Cast", {"q"}, {"y"}, attribute("to", 1)) + output("y"));
  EXPECT_EQ(reference::run(imported.graph, {}).at("y").data, (std::vector<double>{1, 2, -1}));
  EXPECT_THAT(refusal(initializer(tensor<uint8_t>("q", kInt4, {3}, {0x21})) + output("q")), HasSubstr("2"));
}

// 4 bits and 2 bytes for each 32 of them: what is allocated, to the byte.
TEST(OnnxPacked, PlansHaveTheBytesOfPackedWeights) {
  constexpr int64_t kWide = 1024;
  const auto planned = [](const std::string& product) {
    return make_plan(optimize(import_bytes(product).graph, Precision::F32), Target(default_limits()), {});
  };
  const std::string graph =
      input("x", Float, {1, kWide}) +
      initializer(tensor("b", Uint8, {kWide, kWide / 32, 16}, bytes(kWide * kWide / 2, 1))) +
      initializer(tensor("s", Float, {kWide * kWide / 32}, numbers(kWide * kWide / 32, 2))) +
      node("MatMulNBits", {"x", "b", "s"}, {"y"},
           attribute("K", kWide) + attribute("N", kWide) + attribute("bits", 4) + attribute("block_size", 32),
           "com.microsoft") +
      output("y");
  const Plan plan = planned(graph);
  EXPECT_EQ(plan.weights.size() / 1000, static_cast<uint64_t>(kWide * kWide / 2 + kWide * kWide / 32 * 4) / 1000);
  EXPECT_LT(plan.peak_bytes(), static_cast<uint64_t>(kWide * kWide * 4) / 6);
}

}  // namespace
}  // namespace gyrus::packed_weights
