// Kernels for matrix units against the reference executor, on devices that have some (a Dawn and a driver of 2026).
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/limits.h"
#include "gyrus/device.h"
#include "op_cases.h"
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

// Runs the graph under every kind of limits, through a kernel of that name where workgroup memory allows it.
void expect_reference(const Graph& graph, const std::map<std::string, Tensor>& inputs, const std::string& kernel) {
  static const std::optional<Device> device = matrix_device();
  if (!device) GTEST_SKIP() << "this adapter has no matrix units";
  const RefTensor want = reference::run(graph, inputs).at("y");
  Target target = device->target();
  const Limits adapter = target.limits;
  PlanOptions options;
  options.matrix = MatrixUse::On;
  // Drivers that imitate the units compile for half a minute what has many sums.
  if (device->adapter().type == AdapterType::Software) options.conv.workgroup = 32, options.conv.registers = 4;
  for (const Limits& limits : {adapter, intersect(default_limits(), adapter), intersect(tiny_limits(), adapter)}) {
    target.limits = limits;
    SCOPED_TRACE(cat("buffers of ", limits.max_buffer_size));
    const Plan plan = make_plan(optimize(graph, Precision::F16), target, options);
    const bool tiny = limits.max_compute_workgroup_storage_size <= tiny_limits().max_compute_workgroup_storage_size;
    EXPECT_TRUE(tiny || has_kernel(plan, kernel));
    EXPECT_EQ(plan.features.subgroup_matrix, has_kernel(plan, kernel));
    ASSERT_NO_THROW(check(plan, limits));
    Executor executor(*device, plan);
    EXPECT_EQ(executor.allocated_bytes() + executor.memory().bytes(), plan.peak_bytes());
    const reference::Difference d = reference::difference(executor.run(inputs).outputs.at("y"), want);
    EXPECT_LE(d.nmse, reference::kF16Nmse);
    EXPECT_LE(d.largest, reference::kF16Largest);
  }
}

class MatrixConv : public testing::TestWithParam<ConvCase> {};

TEST_P(MatrixConv, MatchesTheReferenceUnderEveryLimit) {
  expect_reference(graph_of(GetParam()), {{"x", random(GetParam().x, 1, 3)}}, "conv_matrix");
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
  };
}

class MatrixProduct : public testing::TestWithParam<ProductCase> {};

TEST_P(MatrixProduct, MatchesTheReferenceUnderEveryLimit) {
  const ProductCase& c = GetParam();
  Graph graph;
  std::vector<ValueId> operands = {graph.add_input("a", {DType::F16, c.a}), graph.add_input("b", {DType::F16, c.b})};
  const int64_t columns = c.b[c.b.size() - (c.attrs.integer("transpose_b", 0) ? 2 : 1)];
  if (c.bias) operands.push_back(graph.add_constant("bias", random({columns}, 2, 8)));
  graph.add_output("y", graph.add("relu", {graph.add("matmul", operands, c.attrs)}));
  const auto halves = [](const Shape& shape, uint64_t seed) {
    Tensor t(DType::F16, shape);
    const Tensor values = random(shape, 0.5, seed);
    for (int64_t i = 0; i < t.size(); ++i) set(t, i, get(values, i));
    return t;
  };
  expect_reference(graph, {{"a", halves(c.a, 3)}, {"b", halves(c.b, 4)}}, "matmul_matrix");
}

INSTANTIATE_TEST_SUITE_P(All, MatrixProduct, testing::ValuesIn(product_cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(All, MatrixConv, testing::ValuesIn(conv_cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace gyrus::test
