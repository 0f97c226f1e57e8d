// Kernels for matrix units against the reference executor, on devices that have some (a Dawn and a driver of 2026).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/limits.h"
#include "gyrus/device.h"
#include "op_cases.h"
#include "ops/blocks.h"
#include "passes/passes.h"
#include "plan/check.h"
#include "plan/planner.h"
#include "reference/bounds.h"
#include "reference/reference.h"
#include "runtime/executor.h"

namespace gyrus::test {
namespace {

// A device with matrix units, or nothing.
std::optional<Device> matrix_device() {
  const AdapterInfo adapter = choose_adapter("webgpu");
  if (!adapter.features.subgroup_matrix) return {};
  DeviceOptions options;
  options.limits = adapter.limits;
  options.features = adapter.features;
  return open_device(options);
}

struct ConvCase {
  const char* name;
  Shape x;
  Shape weight;
  std::vector<int64_t> dilation, stride = {};
  bool norm = false;   // statistics are gathered on the way
  bool state = false;  // weights that live on the device
};

void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

// Odd extents and channels; dilations over the extent; less, as much and more than a matrix has.
std::vector<ConvCase> conv_cases() {
  return {
      // One channel lies plain, and matrices of one would be mostly empty: the kernel of other targets takes it.
      {"one", {1, 1, 5, 9, 21}, {15, 1, 3, 3, 3}, {1, 1, 1}, {}, true},
      {"one_apart", {1, 1, 7, 9, 21}, {16, 1, 3, 3, 3}, {2, 4, 8}, {}, true},
      {"to_one", {1, 16, 3, 5, 9}, {1, 16, 3, 3, 3}, {1, 2, 3}},
      {"uneven", {1, 33, 3, 5, 17}, {7, 33, 3, 3, 3}, {1, 3, 2}, {}, true},
      {"few", {1, 2, 5, 6, 7}, {3, 2, 3, 3, 3}, {1, 1, 1}},
      {"norm", {1, 15, 6, 13, 21}, {15, 15, 3, 3, 3}, {2, 2, 2}, {}, true},
      {"even", {1, 16, 4, 16, 64}, {16, 16, 3, 3, 3}, {4, 4, 4}, {}, true},
      {"beyond", {1, 5, 4, 9, 19}, {18, 5, 3, 3, 3}, {16, 16, 16}, {}, true},
      {"wide", {1, 30, 3, 9, 70}, {30, 30, 3, 3, 3}, {1, 1, 1}},
      {"many", {1, 64, 3, 5, 18}, {64, 64, 3, 3, 3}, {1, 1, 1}, {}, true},
      {"point", {2, 20, 3, 5, 11}, {24, 20, 1, 1, 1}, {1, 1, 1}},
      {"flat", {2, 24, 13, 29}, {40, 24, 3, 3}, {1, 2}, {}, true},
      {"line", {1, 12, 57}, {20, 12, 5}, {3}},
      {"strided", {1, 17, 9, 6, 10}, {33, 17, 3, 3, 3}, {1, 1, 1}, {2, 1, 1}},
      {"state", {1, 11, 3, 7, 18}, {11, 11, 3, 3, 3}, {1, 1, 1}, {}, true, true},
      {"long", {1, 16, 3, 4, 200}, {16, 16, 1, 3, 3}, {1, 1, 3}, {}, true},
  };
}

Tensor random(const Shape& shape, double scale, uint64_t seed) {
  Rng rng(seed);
  Tensor t(DType::F32, shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, scale * rng.normal());
  return t;
}

Graph graph_of(const ConvCase& c) {
  Graph graph;
  const auto parameter = [&](const std::string& name, const Shape& shape, double scale, uint64_t seed) {
    const auto tensor = std::make_shared<const Tensor>(random(shape, scale, seed));
    return c.state ? graph.add_state(name, {DType::F32, shape}, tensor) : graph.add_constant(name, tensor);
  };
  std::vector<int64_t> pads;
  for (int side = 0; side < 2; ++side)
    for (size_t i = 0; i < c.dilation.size(); ++i) pads.push_back(c.dilation[i] * (c.weight[i + 2] / 2));
  Attrs attrs = {{"pads", pads}, {"dilation", c.dilation}};
  if (!c.stride.empty()) attrs.set("stride", c.stride);
  const ValueId x = graph.add_input("x", {DType::F32, c.x});
  ValueId y = graph.add("conv", {x, parameter("weight", c.weight, 0.2, 5), parameter("bias", {c.weight[0]}, 1, 6)},
                        attrs, "conv");
  if (c.norm) y = graph.add("group_norm", {y}, {{"groups", c.weight[0]}}, "norm");
  graph.add_output("y", graph.add("relu", {y}));
  return graph;
}

bool has_kernel(const Plan& plan, const std::string& name) {
  return std::any_of(plan.kernels.begin(), plan.kernels.end(),
                     [&](const PlanKernel& k) { return k.name.find(name) != std::string::npos; });
}

bool uses_matrices(const Plan& plan) {
  return std::any_of(plan.kernels.begin(), plan.kernels.end(),
                     [](const PlanKernel& k) { return k.wgsl.find("subgroupMatrix") != std::string::npos; });
}

// What a graph gives on a device with matrix units, under one kind of limits.
struct Made {
  Plan plan;
  std::map<std::string, Tensor> outputs;
};
Made run_on(const Device& device, const Graph& graph, const std::map<std::string, Tensor>& inputs, const Limits& limits,
            bool check_finite = false) {
  Target target = device.target();
  target.limits = limits;
  PlanOptions options;
  options.matrix = MatrixUse::On;
  options.check_finite = check_finite;
  // Drivers that imitate the units compile for half a minute what has many sums.
  if (device.adapter().type == AdapterType::Software) options.conv.workgroup = 32, options.conv.registers = 4;
  Made made{make_plan(optimize(graph, Precision::F16), target, options), {}};
  check(made.plan, limits);
  Executor executor(device, made.plan);
  EXPECT_EQ(executor.allocated_bytes() + executor.memory().bytes(), made.plan.peak_bytes());
  made.outputs = executor.run(inputs).outputs;
  return made;
}

const std::optional<Device>& the_device() {
  static const std::optional<Device> device = matrix_device();
  return device;
}

// Runs the graph under every kind of limits, through a kernel of that name where workgroup memory allows it; through
// none for matrix units where it has no name.
void expect_reference(const Graph& graph, const std::map<std::string, Tensor>& inputs, const std::string& kernel) {
  if (!the_device()) GTEST_SKIP() << "this adapter has no matrix units";
  const std::map<std::string, RefTensor> want = reference::run(graph, inputs);
  const Limits adapter = the_device()->limits();
  for (const Limits& limits : {adapter, intersect(default_limits(), adapter), intersect(tiny_limits(), adapter)}) {
    SCOPED_TRACE(cat("buffers of ", limits.max_buffer_size));
    Made made;
    ASSERT_NO_THROW(made = run_on(*the_device(), graph, inputs, limits));
    const bool tiny = limits.max_compute_workgroup_storage_size <= tiny_limits().max_compute_workgroup_storage_size;
    EXPECT_TRUE(tiny || kernel.empty() || has_kernel(made.plan, kernel));
    EXPECT_FALSE(kernel.empty() && made.plan.features.subgroup_matrix);
    EXPECT_EQ(made.plan.features.subgroup_matrix, uses_matrices(made.plan));
    for (const auto& [name, expected] : want) {
      const reference::Difference d = reference::difference(made.outputs.at(name), expected);
      EXPECT_LE(d.nmse, reference::kF16Nmse) << name;
      EXPECT_LE(d.largest, reference::kF16Largest) << name;
    }
  }
}

class MatrixConv : public testing::TestWithParam<ConvCase> {};

TEST_P(MatrixConv, MatchesTheReferenceUnderEveryLimit) {
  expect_reference(graph_of(GetParam()), {{"x", random(GetParam().x, 1, 3)}},
                   GetParam().x[1] == 1 ? "" : "conv_matrix");
}

struct ProductCase {
  const char* name;
  Shape a, b;
  Attrs attrs = {};
  bool bias = false;
};

void PrintTo(const ProductCase& c, std::ostream* out) { *out << c.name; }

std::vector<ProductCase> product_cases() {
  return {
      {"plain", {37, 40}, {40, 24}, {}, true},
      {"batches", {3, 50, 16}, {3, 16, 72}},
      {"shared", {2, 3, 20, 8}, {8, 16}, {}, true},
      {"turned_a", {24, 40}, {24, 32}, {{"transpose_a", int64_t{1}}}},
      {"turned_b", {33, 64}, {44, 64}, {{"transpose_b", int64_t{1}}}, true},
      {"turned", {64, 16}, {20, 64}, {{"transpose_a", int64_t{1}}, {"transpose_b", int64_t{1}}}},
      {"large", {2, 200, 264}, {2, 264, 152}},
      {"tiles", {130, 20, 16}, {130, 16, 24}},
      {"odd", {3, 37, 29}, {3, 29, 23}},
      {"odd_turned_b", {19, 27}, {33, 27}, {{"transpose_b", int64_t{1}}}},
      {"odd_turned", {19, 27}, {33, 19}, {{"transpose_a", int64_t{1}}, {"transpose_b", int64_t{1}}}, true},
  };
}

Tensor rounded(const Tensor& values) {
  Tensor t(DType::F16, values.shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, get(values, i));
  return t;
}

// With a residual where the body has one more operand.
Graph graph_of(const ProductCase& c, DType dtype, bool residual) {
  Graph graph;
  std::vector<ValueId> operands = {graph.add_input("a", {dtype, c.a}), graph.add_input("b", {dtype, c.b})};
  const int64_t columns = c.b[c.b.size() - (c.attrs.integer("transpose_b", 0) ? 2 : 1)];
  if (c.bias) operands.push_back(graph.add_constant("bias", random({columns}, 2, 8)));
  ValueId y = graph.add("relu", {graph.add("matmul", operands, c.attrs)});
  if (residual) y = graph.add("add", {y, graph.add_input("residual", graph.type(y))});
  graph.add_output("y", y);
  return graph;
}

class MatrixProduct : public testing::TestWithParam<ProductCase> {};

TEST_P(MatrixProduct, MatchesTheReferenceUnderEveryLimit) {
  const ProductCase& c = GetParam();
  expect_reference(graph_of(c, DType::F16, false),
                   {{"a", rounded(random(c.a, 0.5, 3))}, {"b", rounded(random(c.b, 0.5, 4))}}, "matmul_matrix");
}

// Singles are rounded on the way.
TEST_P(MatrixProduct, TakesSinglesWherePrecisionIsHalf) {
  const ProductCase& c = GetParam();
  const Graph graph = graph_of(c, DType::F32, true);
  expect_reference(graph,
                   {{"a", random(c.a, 0.5, 3)},
                    {"b", random(c.b, 0.5, 4)},
                    {"residual", random(graph.type(graph.inputs()[2].value).shape, 1, 5)}},
                   "matmul_matrix");
}

std::vector<const OpCase*> cases_of(const std::string& op) {
  std::vector<const OpCase*> cases;
  for (const OpCase& c : op_cases())
    if (c.op == op) cases.push_back(&c);
  return cases;
}

class MatrixAttention : public testing::TestWithParam<const OpCase*> {};

TEST_P(MatrixAttention, MatchesTheReferenceUnderEveryLimit) {
  const OpCase& c = *GetParam();
  // Depths that are no quads go by parts, which are products.
  const bool parts = c.name == "attention_odd_depth";
  expect_reference(case_graph(c), case_inputs(c, 7), parts ? "matmul_matrix" : "attention_matrix");
}

INSTANTIATE_TEST_SUITE_P(All, MatrixAttention, testing::ValuesIn(cases_of("attention")),
                         [](const auto& tested) { return tested.param->name; });

struct LongAttention {
  Shape q, k, v;
  Attrs attrs{};
};

Graph graph_of(const LongAttention& c) {
  Graph graph;
  std::vector<ValueId> operands;
  for (const auto& [name, shape] : {std::pair{"q", c.q}, {"k", c.k}, {"v", c.v}})
    operands.push_back(graph.add_input(name, {DType::F32, shape}));
  graph.add_output("y", graph.add("attention", operands, c.attrs, "heads"));
  return graph;
}

// Heads as wide as those of language models, keys in many tiles.
TEST(MatrixAttentionTiles, MatchTheReference) {
  // Drivers that imitate the units compile for a minute what has many sums.
  const bool all =
      std::getenv("GYRUS_TEST_FULL") || (the_device() && the_device()->adapter().type != AdapterType::Software);
  std::vector<LongAttention> cases = {{{1, 4, 45, 32}, {1, 2, 301, 32}, {1, 2, 301, 24}, {{"causal", int64_t{1}}}}};
  if (all) cases.push_back({{1, 4, 45, 64}, {1, 2, 301, 64}, {1, 2, 301, 64}, {{"causal", int64_t{1}}}});
  if (all) cases.push_back({{1, 1, 33, 128}, {1, 1, 130, 128}, {1, 1, 130, 96}});
  for (const LongAttention& c : cases)
    expect_reference(graph_of(c), {{"q", random(c.q, 1, 3)}, {"k", random(c.k, 1, 4)}, {"v", random(c.v, 1, 5)}},
                     "attention_matrix");
}

// Scores that halves hold without rounding, and that grow by many bits from tile to tile, so that sums are scaled again
// and again.
TEST(MatrixAttentionTiles, FollowScoresThatGrow) {
  const LongAttention c{{1, 1, 20, 8}, {1, 1, 200, 8}, {1, 1, 200, 16}, {{"scale", 0.69314718055994530942}}};
  const auto whole = [](const Shape& shape, uint64_t seed, const auto& at) {
    Rng rng(seed);
    Tensor t(DType::F32, shape);
    for (int64_t i = 0; i < t.size(); ++i) set(t, i, at(i / shape.back(), i % shape.back(), rng));
    return t;
  };
  const Tensor q = whole(
      c.q, 3, [](int64_t, int64_t d, Rng& rng) { return d == 0 ? 1.0 : static_cast<double>(rng.integer(-1, 1)); });
  const Tensor k = whole(c.k, 4, [](int64_t j, int64_t d, Rng& rng) {
    return d == 0 ? static_cast<double>(j / 3) : static_cast<double>(rng.integer(-2, 2));
  });
  expect_reference(graph_of(c), {{"q", q}, {"k", k}, {"v", random(c.v, 1, 5)}}, "attention_matrix");
}

void expect_not_finite(const Graph& graph, const std::map<std::string, Tensor>& inputs, const std::string& label) {
  if (!the_device()) GTEST_SKIP() << "this adapter has no matrix units";
  try {
    run_on(*the_device(), graph, inputs, the_device()->limits());
    FAIL() << "what halves do not hold went through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NonFinite);
    EXPECT_NE(std::string(error.what()).find(label), std::string::npos) << error.what();
  }
}

Tensor with(Tensor t, int64_t at, double value) {
  set(t, at, value);
  return t;
}

// Loss scaling counts on products that overflow: what is too large is infinite, and told only where values are tested.
TEST(MatrixProductOfSingles, IsInfiniteBeyondHalves) {
  if (!the_device()) GTEST_SKIP() << "this adapter has no matrix units";
  Graph graph;
  const ValueId a = graph.add_input("a", {DType::F32, {20, 24}}), b = graph.add_input("b", {DType::F32, {24, 16}});
  graph.add_output("y", graph.add("matmul", {a, b}, {}, "product"));
  const std::map<std::string, Tensor> inputs = {{"a", with(random({20, 24}, 1, 3), 3 * 24 + 5, 1e6)},
                                                {"b", random({24, 16}, 1, 4)}};
  const Made made = run_on(*the_device(), graph, inputs, the_device()->limits());
  EXPECT_TRUE(uses_matrices(made.plan));
  const Tensor& y = made.outputs.at("y");
  for (int64_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(get(y, i)), i / 16 != 3) << i;
  try {
    run_on(*the_device(), graph, inputs, the_device()->limits(), true);
    FAIL() << "it was not told";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NonFinite);
  }
}

// A number that halves do not hold ends in an error, wherever it stands, and the largest that they hold in none.
TEST(MatrixAttentionTiles, RefuseWhatHalvesDoNotHold) {
  const LongAttention c{{1, 1, 20, 8}, {1, 1, 50, 8}, {1, 1, 50, 16}};
  const std::map<std::string, Tensor> inputs = {
      {"q", random(c.q, 1, 3)}, {"k", random(c.k, 1, 4)}, {"v", random(c.v, 1, 5)}};
  for (const char* name : {"q", "k", "v"}) {
    std::map<std::string, Tensor> other = inputs;
    other[name] = with(inputs.at(name), 19 * 8 + 3, -2e5);
    expect_not_finite(graph_of(c), other, "heads");
  }
  std::map<std::string, Tensor> other = inputs;
  other["v"] = with(inputs.at("v"), 3, -65504);
  expect_reference(graph_of(c), other, "attention_matrix");
}

Graph graph_of(BlockType type, const Tensor& words, const Shape& x, int64_t rows) {
  Graph graph;
  const ValueId given = graph.add_input("x", {DType::F32, x});
  graph.add_output("y", graph.add("block_matmul", {given, graph.add_constant("w", words)},
                                  {{"formats", std::vector<int64_t>{static_cast<int64_t>(type)}},
                                   {"rows", std::vector<int64_t>{rows}}},
                                  "linear"));
  return graph;
}

// Rows of any size: far beyond what halves hold, far below, and of zeros. Weights that are too large are told.
TEST(MatrixBlockRows, AreOfAnySize) {
  const Shape x = {20, 40};
  Tensor rows = random(x, 1, 3);
  for (int64_t i = 0; i < rows.size(); ++i) {
    const double size[] = {1e9, 1e-20, 0, 1, 1e-35, 1e30};
    set(rows, i, get(rows, i) * size[i / 40 % 6]);
  }
  const BlockMatrix matrix{BlockType::F32, 12, 40};
  Tensor words(DType::U32, matrix.shape());
  const Tensor weights = random({12, 40}, 0.5, 4);
  std::memcpy(words.data.data(), weights.data.data(), words.data.size());
  const Graph graph = graph_of(BlockType::F32, words, x, 12);
  if (!the_device()) GTEST_SKIP() << "this adapter has no matrix units";
  const Tensor got = run_on(*the_device(), graph, {{"x", rows}}, the_device()->limits()).outputs.at("y");
  const RefTensor want = reference::run(graph, {{"x", rows}}).at("y");
  for (int64_t row = 0; row < 20; ++row) {
    double off = 0, all = 0;
    for (int64_t n = 0; n < 12; ++n) {
      const double wanted = want.data[static_cast<size_t>(row * 12 + n)];
      off = std::max(off, std::abs(get(got, row * 12 + n) - wanted));
      all = std::max(all, std::abs(wanted));
    }
    EXPECT_LE(off, reference::kF16Largest * all) << "row " << row;
  }
  const float large = 1e5F;
  std::memcpy(words.data.data() + 4 * (7 * 40 + 5), &large, 4);
  expect_not_finite(graph_of(BlockType::F32, words, x, 12), {{"x", rows}}, "linear");
}

// The op table's, with as many rows as the units take.
class MatrixBlocks : public testing::TestWithParam<const OpCase*> {};

TEST_P(MatrixBlocks, MatchTheReferenceUnderEveryLimit) {
  const OpCase& c = *GetParam();
  expect_reference(case_graph(c), case_inputs(c, 7), "block_matrices");
}

std::vector<const OpCase*> many_rows() {
  std::vector<const OpCase*> cases;
  for (const char* op : {"block_matmul", "block_normed"})
    for (const OpCase* c : cases_of(op))
      if (!c->large && (c->name.find("tiles") != std::string::npos || c->name.find("many_rows") != std::string::npos))
        cases.push_back(c);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, MatrixBlocks, testing::ValuesIn(many_rows()),
                         [](const auto& tested) { return tested.param->name; });

// NVIDIA's shapes cannot run on other devices, but the texts of kernels for them are sound: all that Dawn refuses is
// the shape.
TEST(MatrixShapes, OfOtherDevicesHaveSoundTexts) {
  if (!the_device()) GTEST_SKIP() << "this adapter has no matrix units";
  Target target = the_device()->target();
  target.subgroup_min_size = target.subgroup_max_size = 32;
  PlanOptions options;
  options.matrix = MatrixUse::On;
  std::map<std::string, size_t> refused;
  for (const uint32_t n : {16u, 8u}) {
    const MatrixShape shape{DType::F16, DType::F32, 16, n, 16};
    const auto& own = the_device()->target().matrices;
    if (std::find(own.begin(), own.end(), shape) != own.end()) continue;
    target.matrices = {shape};
    for (const char* op : {"conv", "matmul", "attention", "block_matmul"})
      for (const OpCase* c : cases_of(op)) {
        if (c->large) continue;
        const Plan plan = make_plan(optimize(case_graph(*c), Precision::F16), target, options);
        if (!uses_matrices(plan)) continue;
        SCOPED_TRACE(cat(c->name, " ", n));
        try {
          Executor executor(*the_device(), plan);
          FAIL() << "it runs";
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("not supported by the device. Unknown configuration"),
                    std::string::npos)
              << error.what();
        }
        ++refused[op];
      }
    for (const char* op : {"conv", "matmul", "attention", "block_matmul"}) EXPECT_GT(refused[op], 3u) << op;
  }
}

INSTANTIATE_TEST_SUITE_P(All, MatrixProduct, testing::ValuesIn(product_cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(All, MatrixConv, testing::ValuesIn(conv_cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace gyrus::test
