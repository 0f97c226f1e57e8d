// Kernels whose text is generated, because fusion makes them: as they were last read and found right. After a wanted
// change run with GYRUS_UPDATE_SNAPSHOTS=1 and read the difference.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "plan_support.h"

namespace gyrus::test {
namespace {

// The only kernel of that name, from its parameters on; the functions of elementwise.wgsl come before them.
std::string generated(const Plan& plan, const std::string& name) {
  for (const PlanKernel& kernel : plan.kernels)
    if (kernel.name == name) return kernel.wgsl.substr(kernel.wgsl.find("struct Params"));
  std::string names;
  for (const PlanKernel& kernel : plan.kernels) names += "'" + kernel.name + "' ";
  return "no kernel '" + name + "' among " + names;
}

void expect_snapshot(const std::string& file, const std::string& text) {
  const std::string path = cat(GYRUS_SOURCE_DIR, "/tests/unit/snapshots/", file);
  if (std::getenv("GYRUS_UPDATE_SNAPSHOTS")) std::ofstream(path) << text;
  std::stringstream stored;
  stored << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, stored.str()) << path;
}

// The tanh of a sum with a broadcast operand.
Graph plain_graph() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {3, 5}});
  const ValueId row = graph.add_input("row", {DType::U8, {5}});
  const ValueId wide = graph.add("cast", {row}, {{"to", std::string("f32")}});
  graph.add_output("y", graph.add("tanh", {graph.add("add", {x, wide})}));
  return graph;
}

TEST(GeneratedKernels, PlainMap) {
  const Plan plan = make_plan(optimize(plain_graph(), Precision::F32), default_limits());
  expect_snapshot("map_plain.wgsl", generated(plan, "map add tanh"));
}

TEST(GeneratedKernels, PlainMapOfBytes) {
  const Plan plan = make_plan(optimize(plain_graph(), Precision::F32), default_limits());
  expect_snapshot("map_bytes.wgsl", generated(plan, "map cast"));
}

// The source lies in several windows: reads are checked against the one that is bound.
TEST(GeneratedKernels, PlainMapOverWindows) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F16, {96, 128}});
  graph.add_output("y", graph.add("transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}}));
  Limits limits = tiny_limits();
  limits.max_storage_buffer_binding_size = 16 << 10;
  const Plan plan = make_plan(optimize(graph, Precision::F32), limits);
  expect_snapshot("map_windows.wgsl", generated(plan, "transpose"));
}

TEST(GeneratedKernels, PackedMapOfHalvesInPlace) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {1, 1, 2, 3, 4}});
  const auto constant = [&](const Shape& shape) { return graph.add_constant("", Tensor(DType::F32, shape)); };
  const ValueId y = graph.add("conv", {x, constant({5, 1, 1, 1, 1})});
  const ValueId gate = graph.add("mul", {graph.add("sigmoid", {y}), constant({1, 5, 1, 1, 1})});
  graph.add_output("y", graph.add("add", {gate, y}));
  const Plan plan = make_plan(optimize(graph, Precision::F16), default_limits());
  expect_snapshot("map_packed_halves.wgsl", generated(plan, "map sigmoid mul add packed"));
}

}  // namespace
}  // namespace gyrus::test
