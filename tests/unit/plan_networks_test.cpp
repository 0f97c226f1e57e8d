// The memory that whole networks take at 256 cubed, known without a device.
#include <cmath>

#include "plan_support.h"

namespace gyrus::test {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

struct MeshNet {
  int64_t channels = 15;
  int64_t layers = 25;  // the last one is pointwise
  int64_t classes = 2;
  bool norm = true;  // instance norm and GELU behind every layer, else ReLU
};

// Dilated convolutions over a volume that is normalised on the way in, then a label for each voxel.
Graph meshnet(const MeshNet& net, int64_t size) {
  Rng rng(8);
  Graph graph;
  const auto constant = [&](const std::string& name, const Shape& shape) {
    Tensor tensor(DType::F32, shape);
    for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, 0.1 * rng.normal());
    return graph.add_constant(name, std::move(tensor));
  };
  ValueId x = graph.add_input("image", {DType::F32, {1, 1, size, size, size}});
  const ValueId scale = graph.add_input("scale", {DType::F32, {1}});
  x = graph.add("affine_clamp", {graph.add("mul", {x, scale})}, {{"lo", 0.0}, {"hi", 1.0}}, "normalize");
  const int64_t dilations[] = {1, 2, 4, 8, 16, 8, 4, 2};
  for (int64_t layer = 0; layer + 1 < net.layers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const int64_t d = dilations[layer % 8];
    const ValueId weight = constant(name + ".w", {net.channels, graph.type(x).shape[1], 3, 3, 3});
    const Attrs attrs = {{"dilation", std::vector<int64_t>(3, d)}, {"pads", std::vector<int64_t>(6, d)}};
    if (net.norm) {
      x = graph.add("conv", {x, weight}, attrs, name);
      x = graph.add("gelu", {graph.add("instance_norm", {x}, {}, name + ".norm")}, {}, name + ".act");
    } else {
      x = graph.add("conv", {x, weight, constant(name + ".b", {net.channels})}, attrs, name);
      x = graph.add("relu", {x}, {}, name + ".act");
    }
  }
  const ValueId weight = constant("classes.w", {net.classes, net.channels, 1, 1, 1});
  x = graph.add("conv", {x, weight, constant("classes.b", {net.classes})}, {}, "classes");
  x = graph.add("argmax", {x}, {{"axis", int64_t{1}}, {"dtype", std::string("u8")}}, "labels");
  graph.add_output("labels", x);
  return graph;
}

void expect_peak(const MeshNet& net, Precision precision, double most_gib) {
  const Graph graph = optimize(meshnet(net, 256), precision);
  for (const Limits& limits : {large_limits(), default_limits()}) {
    const Plan plan = make_plan(graph, limits);
    SCOPED_TRACE(to_text(limits));
    expect_sound(plan, limits);
    expect_round_trip(plan);
    EXPECT_LE(static_cast<double>(plan.peak_bytes()) / kGiB, most_gib);
    // Two maps must exist at a time where each is one buffer. Cut into several, planes of the input that were read for
    // the last time make room for the result, but less than one map and a halo would be a mistake.
    const double quads = std::ceil(static_cast<double>(net.channels) / 4);
    const double map = quads * (precision == Precision::F16 ? 0.125 : 0.25);
    EXPECT_GE(static_cast<double>(plan.peak_bytes()) / kGiB, limits == large_limits() ? 2 * map : 1.1 * map);
  }
}

TEST(Networks, TwoClassesWithNormsInSingles) { expect_peak({}, Precision::F32, 2.2); }
TEST(Networks, TwoClassesWithNormsInHalves) { expect_peak({}, Precision::F16, 1.15); }
TEST(Networks, HundredAndFourClassesInSingles) { expect_peak({21, 10, 104, false}, Precision::F32, 3.2); }

TEST(Networks, NoLogitsAreEverStored) {
  const Plan plan = make_plan(optimize(meshnet({21, 4, 104, false}, 64), Precision::F32), default_limits());
  const uint64_t map = 64 * 64 * 64 * 16 * 6;
  for (const PlanBuffer& buffer : plan.buffers) EXPECT_LE(buffer.size, map);
}

TEST(Networks, StepsCarryTheCostOfTheNetwork) {
  const MeshNet net{4, 3, 2, false};
  const double voxels = 32.0 * 32 * 32;
  const double macs = voxels * 27 * (4 + 16) + voxels * 8;
  for (const Limits& limits : {large_limits(), tiny_limits()}) {
    const Plan plan = make_plan(optimize(meshnet(net, 32), Precision::F32), limits);
    EXPECT_NEAR(plan.flops(), 2 * macs, 0.02 * macs);  // and a few for activations
    EXPECT_GE(plan.bytes(), voxels * 4 * (1 + 4 + 4));
  }
}

}  // namespace
}  // namespace gyrus::test
