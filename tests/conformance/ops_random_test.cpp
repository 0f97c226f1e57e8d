// Random small networks on a real WebGPU device against the reference executor, under limits that no device has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/limits.h"
#include "gyrus/device.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "support/random_graph.h"

namespace gyrus::test {
namespace {

constexpr uint64_t kGraphs = 60;
// Up to nine layers, each with a relative error of some 1e-6, grown by norms over a few voxels: squared, with room.
constexpr double kRandomF32Nmse = 1e-8;
// The same with halves: 2^-11 in each layer.
constexpr double kRandomF16Nmse = 1e-3;

double nmse(const Tensor& got, const RefTensor& want) {
  double error = 0, power = 1e-12;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double difference = get(got, i) - want.data[i];
    error += difference * difference;
    power += want.data[i] * want.data[i];
  }
  return error / power;
}

std::map<std::string, Tensor> inputs_of(const Graph& graph, Rng& rng) {
  std::map<std::string, Tensor> inputs;
  for (const Port& port : graph.inputs()) {
    Tensor tensor(DType::F32, graph.type(port.value).shape);
    for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, rng.normal());
    inputs[port.name] = std::move(tensor);
  }
  return inputs;
}

// Bindings of a few kilobytes, so that even these small tensors are cut.
Limits random_limits(const Limits& adapter, Rng& rng) {
  Limits l = tiny_limits();
  l.max_buffer_size = uint64_t{1} << rng.integer(13, 17);
  l.max_storage_buffer_binding_size = std::min(l.max_buffer_size, uint64_t{1} << rng.integer(12, 16));
  l.max_storage_buffers_per_shader_stage = static_cast<uint32_t>(rng.integer(4, 8));
  l.max_compute_workgroups_per_dimension = static_cast<uint32_t>(rng.integer(2, 40));
  l.max_compute_workgroup_storage_size = 512u << rng.integer(0, 4);
  return intersect(l, adapter);
}

TEST(RandomNetworks, MatchTheReference) {
  DeviceOptions device_options;
  device_options.limits = choose_adapter("webgpu").limits;
  Device device = open_device(device_options);
  Rng rng(9);
  uint64_t ran = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = random_graph(seed);
    const std::map<std::string, Tensor> inputs = inputs_of(graph, rng);
    const std::map<std::string, RefTensor> want = reference::run(graph, inputs);
    const Limits limits = seed % 3 ? random_limits(device.limits(), rng) : tiny_limits();
    const Precision precision = seed % 4 ? Precision::F32 : Precision::F16;
    SCOPED_TRACE(cat("seed ", seed, "\n", print(graph)));
    Plan plan;
    try {
      plan = make_plan(optimize(graph, precision), limits, seed % 2 ? software_options() : PlanOptions{});
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::OverLimits) << error.what();
      continue;
    }
    ++ran;
    const RunResult result = Executor(device, plan).run(inputs);
    for (const auto& [name, expected] : want)
      EXPECT_LE(nmse(result.outputs.at(name), expected), precision == Precision::F16 ? kRandomF16Nmse : kRandomF32Nmse)
          << name;
  }
  EXPECT_GT(ran, kGraphs / 2);
}

}  // namespace
}  // namespace gyrus::test
