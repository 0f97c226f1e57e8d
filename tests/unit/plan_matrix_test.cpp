// Plans for targets with matrix units: what they do, what they need, and what stays as it was without.
#include <algorithm>
#include <map>

#include "plan/check.h"
#include "plan_support.h"

namespace gyrus::test {
namespace {

// As NVIDIA's units and Mesa's imitation offer them.
Target matrix_target(const Limits& limits, uint32_t lanes) {
  Target target(limits);
  target.features.shader_f16 = target.features.subgroups = target.features.subgroup_matrix = true;
  target.subgroup_min_size = target.subgroup_max_size = lanes;
  if (lanes == 32)
    target.matrices = {{DType::F16, DType::F16, 16, 16, 16},
                       {DType::F16, DType::F32, 16, 16, 16},
                       {DType::F16, DType::F32, 16, 8, 16},
                       {DType::F16, DType::F32, 16, 8, 8}};
  else
    target.matrices = {{DType::F16, DType::F32, 8, 8, 8}};
  return target;
}

bool uses_matrices(const Plan& plan) {
  return std::any_of(plan.kernels.begin(), plan.kernels.end(),
                     [](const PlanKernel& k) { return k.wgsl.find("subgroupMatrix") != std::string::npos; });
}

bool multiplies(const OpCase& c) {
  return c.name.find("conv") != std::string::npos || c.op == "matmul" || c.op == "attention" ||
         c.op == "block_matmul" || c.op == "block_normed";
}

size_t count_of(const Plan& plan, const std::string& kernel) {
  return static_cast<size_t>(std::count_if(plan.kernels.begin(), plan.kernels.end(), [&](const PlanKernel& k) {
    return k.name.find(kernel) != std::string::npos;
  }));
}

TEST(MatrixUnits, PlansKeepTheLimitsAndSayWhatTheyUse) {
  PlanOptions options;
  options.matrix = MatrixUse::On;
  std::map<std::string, size_t> used;
  for (uint32_t lanes : {8u, 32u})
    for (const Limits& limits : {large_limits(), default_limits(), tiny_limits(), small_limits()})
      for (const OpCase& c : op_cases()) {
        if (!multiplies(c)) continue;
        SCOPED_TRACE(cat(c.name, " ", lanes));
        Plan plan;
        ASSERT_NO_THROW(plan =
                            make_plan(optimize(case_graph(c), Precision::F16), matrix_target(limits, lanes), options));
        expect_sound(plan, limits);
        expect_least(plan);
        EXPECT_EQ(plan.features.subgroup_matrix, uses_matrices(plan));
        EXPECT_EQ(plan.features.shader_f16, uses_matrices(plan));
        for (const char* kernel : {"conv_matrix", "matmul_matrix", "attention_matrix", "block_matrices"})
          used[cat(kernel, lanes)] += count_of(plan, kernel);
        if (testing::Test::HasFailure()) return;
      }
  for (uint32_t lanes : {8u, 32u}) {
    EXPECT_GT(used[cat("conv_matrix", lanes)], 60u) << lanes;
    EXPECT_GT(used[cat("matmul_matrix", lanes)], 20u) << lanes;
    EXPECT_GT(used[cat("attention_matrix", lanes)], 20u) << lanes;
    EXPECT_GT(used[cat("block_matrices", lanes)], 8u) << lanes;
  }
}

// Neither f32 nor `off` knows of them, and the JSON form names them only where they are used.
TEST(MatrixUnits, LeaveOtherPlansAsTheyWere) {
  PlanOptions off;
  off.matrix = MatrixUse::Off;
  const Target without(default_limits()), with = matrix_target(default_limits(), 32);
  for (const OpCase& c : op_cases()) {
    if (!multiplies(c)) continue;
    SCOPED_TRACE(c.name);
    for (const Precision precision : {Precision::F32, Precision::F16}) {
      const Graph graph = optimize(case_graph(c), precision);
      const std::string before = to_json(make_plan(graph, without));
      EXPECT_EQ(before.find("subgroup-matrix"), std::string::npos);
      EXPECT_EQ(to_json(make_plan(graph, with, off)), before);
      const bool has_halves = c.name.find("f16") != std::string::npos || c.name.find("half") != std::string::npos ||
                              c.name.find("halves") != std::string::npos;
      if (precision == Precision::F32 && !has_halves) {
        EXPECT_EQ(to_json(make_plan(graph, with)), before);
      }
    }
  }
}

TEST(MatrixUnits, AreKeptInTheFileOfAPlan) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {1, 16, 4, 16, 64}});
  const ValueId w = graph.add_constant("w", Tensor(DType::F32, {16, 16, 3, 3, 3}));
  graph.add_output("y", graph.add("conv", {x, w}, {{"pads", std::vector<int64_t>(6, 1)}}));
  const Graph halves = optimize(graph, Precision::F16);
  const Plan plan = make_plan(halves, matrix_target(default_limits(), 32));
  EXPECT_TRUE(uses_matrices(plan));
  const Plan read = parse_plan(to_json(plan), plan.weights);
  EXPECT_TRUE(read.features.subgroup_matrix);
  EXPECT_EQ(to_json(read), to_json(plan));
  EXPECT_FALSE(uses_matrices(make_plan(optimize(graph, Precision::F32), matrix_target(default_limits(), 32))));
  // A CPU only imitates them.
  EXPECT_FALSE(uses_matrices(make_plan(halves, matrix_target(default_limits(), 8), software_options())));
}

// By themselves they take what is long enough, and with NVIDIA's limits the largest tiles.
TEST(MatrixUnits, TakeLongPromptsAndHeads) {
  Graph graph;
  const auto input = [&](const char* name, const Shape& shape) { return graph.add_input(name, {DType::F32, shape}); };
  const ValueId heads =
      graph.add("attention", {input("q", {1, 8, 512, 128}), input("k", {1, 2, 512, 128}), input("v", {1, 2, 512, 128})},
                {{"causal", int64_t{1}}}, "heads");
  graph.add_output("heads", heads);
  graph.add_output("one", graph.add("attention", {input("q1", {1, 8, 1, 128}), input("k1", {1, 2, 512, 128}),
                                                  input("v1", {1, 2, 512, 128})}));
  graph.add_output("product", graph.add("matmul", {input("a", {512, 640}), input("b", {640, 768})}));
  // Few results of long sums are made in parts.
  graph.add_output("long", graph.add("matmul", {input("c", {32, 40960}), input("d", {40960, 32})}));
  const Target target = matrix_target(large_limits(), 32);
  const Plan plan = make_plan(optimize(graph, Precision::F16), target);
  expect_sound(plan, target.limits);
  EXPECT_EQ(count_of(plan, "attention_matrix"), 1u);
  EXPECT_EQ(count_of(plan, "matmul_matrix"), 1u);
  EXPECT_EQ(plan.kernels.size(), 5u);  // attention, and a product and the sum of its parts
  const auto made = std::find_if(plan.kernels.begin(), plan.kernels.end(),
                                 [](const PlanKernel& k) { return k.name == "attention_matrix"; });
  EXPECT_EQ(made->workgroup_size[0], 128u);
  EXPECT_EQ(plan.precision, "f16");  // though there is no map
  EXPECT_FALSE(uses_matrices(make_plan(optimize(graph, Precision::F32), target)));
}

TEST(MatrixUnits, AreAnErrorWhereTheyAreAskedForAndMissing) {
  PlanOptions on;
  on.matrix = MatrixUse::On;
  const Graph graph = optimize(case_graph(op_cases().front()), Precision::F16);
  try {
    make_plan(graph, default_limits(), on);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Unsupported);
  }
}

}  // namespace
}  // namespace gyrus::test
