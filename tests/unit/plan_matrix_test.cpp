// Plans for targets with matrix units: what they do, what they need, and what stays as it was without.
#include <algorithm>

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

bool has_conv(const OpCase& c) { return c.name.find("conv") != std::string::npos; }

TEST(MatrixUnits, PlansKeepTheLimitsAndSayWhatTheyUse) {
  PlanOptions options;
  options.matrix = MatrixUse::On;
  size_t used = 0;
  for (uint32_t lanes : {8u, 32u})
    for (const Limits& limits : {large_limits(), default_limits(), tiny_limits(), small_limits()})
      for (const OpCase& c : op_cases()) {
        if (!has_conv(c)) continue;
        SCOPED_TRACE(cat(c.name, " ", lanes));
        Plan plan;
        ASSERT_NO_THROW(plan =
                            make_plan(optimize(case_graph(c), Precision::F16), matrix_target(limits, lanes), options));
        expect_sound(plan, limits);
        expect_least(plan);
        EXPECT_EQ(plan.features.subgroup_matrix, uses_matrices(plan));
        EXPECT_EQ(plan.features.shader_f16, uses_matrices(plan));
        used += uses_matrices(plan);
        if (testing::Test::HasFailure()) return;
      }
  EXPECT_GT(used, 60u);
}

// Neither f32 nor `off` knows of them, and the JSON form names them only where they are used.
TEST(MatrixUnits, LeaveOtherPlansAsTheyWere) {
  PlanOptions off;
  off.matrix = MatrixUse::Off;
  const Target without(default_limits()), with = matrix_target(default_limits(), 32);
  for (const OpCase& c : op_cases()) {
    if (!has_conv(c) && c.op != "matmul") continue;
    SCOPED_TRACE(c.name);
    for (const Precision precision : {Precision::F32, Precision::F16}) {
      const Graph graph = optimize(case_graph(c), precision);
      const std::string before = to_json(make_plan(graph, without));
      EXPECT_EQ(before.find("subgroup-matrix"), std::string::npos);
      EXPECT_EQ(to_json(make_plan(graph, with, off)), before);
      const bool has_halves = c.name.find("f16") != std::string::npos || c.name.find("half") != std::string::npos;
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
