#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/limits.h"
#include "gyrus/device.h"
#include "plan/plan.h"
#include "runtime/executor.h"

// Small hand-written plans for the tests of the runtime, and the device they run on.

namespace gyrus::testing {

// The error that the body throws, whose message must be one line.
template <class Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::Io, "none");
}

inline DeviceOptions test_options() {
  const AdapterInfo adapter = choose_adapter("webgpu");
  DeviceOptions options;
  options.features.timestamp_query = adapter.features.timestamp_query;
  return options;
}

// The device that the tests share; dropped by drop_device() and after a test lost it.
inline std::unique_ptr<Device>& device_slot() {
  static std::unique_ptr<Device> slot;
  return slot;
}
inline Device& test_device() {
  auto& slot = device_slot();
  if (!slot || slot->lost()) slot = std::make_unique<Device>(open_device(test_options()));
  return *slot;
}

// out[i] = in[i] * scale + shift for i < count; the group index folds into y.
inline PlanKernel scale_kernel() {
  PlanKernel kernel;
  kernel.name = "scale";
  kernel.workgroup_size = {64, 1, 1};
  kernel.bindings = {BindingKind::ReadStorage, BindingKind::ReadWriteStorage, BindingKind::Uniform};
  kernel.wgsl = R"(
struct Params { count: u32, groups_x: u32, scale: f32, shift: f32 }
@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
  let i = (group.y * params.groups_x + group.x) * 64 + local;
  if (i < params.count) { output[i] = input[i] * params.scale + params.shift; }
}
)";
  return kernel;
}

// in[i] iterated `rounds` times: a kernel that takes as long as one likes.
inline PlanKernel slow_kernel() {
  PlanKernel kernel;
  kernel.name = "slow";
  kernel.workgroup_size = {64, 1, 1};
  kernel.bindings = {BindingKind::ReadWriteStorage, BindingKind::Uniform};
  kernel.wgsl = R"(
struct Params { count: u32, rounds: u32, unused0: u32, unused1: u32 }
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@group(0) @binding(1) var<uniform> params: Params;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= params.count) { return; }
  var x = data[id.x];
  for (var i = 0u; i < params.rounds; i++) { x = fract(x * 1.618034 + 0.1); }
  data[id.x] = x;
}
)";
  return kernel;
}

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof value);
}

// Parameters of scale_kernel, padded to the alignment of uniform offsets.
inline void append_scale_params(Plan& plan, uint32_t count, uint32_t groups_x, float scale, float shift) {
  append(plan.weights, count);
  append(plan.weights, groups_x);
  append(plan.weights, scale);
  append(plan.weights, shift);
  plan.weights.resize((plan.weights.size() + 255) / 256 * 256);
}

inline PlanPort port(const std::string& name, DType dtype, Shape shape, std::vector<Piece> pieces) {
  return {name, dtype, std::move(shape), std::move(pieces)};
}

// y = 3 * (2x + 1) - 1 over `count` floats, x and y each cut into two pieces in different buffers at `cut` floats, with
// folded groups, a copy and a clear: out of the parts of a plan, one of each.
inline Plan chain_plan(uint32_t count = 1000, uint32_t cut = 320, uint32_t groups_x = 3) {
  const uint64_t bytes = uint64_t{4} * count, head = uint64_t{4} * cut;
  Plan plan;
  plan.precision = "f32";
  plan.buffers = {{"x head", head, BufferKind::Storage, 0},   {"x tail", bytes - head, BufferKind::Storage, 0},
                  {"x", bytes, BufferKind::Storage, 0},       {"middle", bytes, BufferKind::Storage, 0},
                  {"y", bytes + 256, BufferKind::Storage, 0}, {"params", 512, BufferKind::Params, 0},
                  {"table", 1024, BufferKind::Weights, 512}};
  append_scale_params(plan, count, groups_x, 2, 1);
  append_scale_params(plan, count, groups_x, 3, -1);
  for (int i = 0; i < 256; ++i) append(plan.weights, static_cast<float>(i));
  plan.kernels = {scale_kernel()};
  const uint32_t groups = (count + 63) / 64;
  const std::array<uint32_t, 3> folded{groups_x, (groups + groups_x - 1) / groups_x, 1};
  const double n = count;
  plan.steps = {Clear{{3, 0, bytes}}, Copy{{0, 0, head}, {2, 0, head}},
                Copy{{1, 0, bytes - head}, {2, head, bytes - head}},
                Dispatch{0, {{2, 0, bytes}, {3, 0, bytes}, {5, 0, 16}}, folded, "first", 2 * n, 8 * n},
                Dispatch{0, {{3, 0, bytes}, {4, 256, bytes}, {5, 256, 16}}, folded, "second", 2 * n, 8 * n}};
  const Shape shape{static_cast<int64_t>(count)};
  plan.inputs = {port("x", DType::F32, shape, {{0, {0, 0, head}}, {head, {1, 0, bytes - head}}})};
  plan.outputs = {port("y", DType::F32, shape, {{0, {4, 256, head}}, {head, {4, 256 + head, bytes - head}}})};
  plan.captures = {port("middle", DType::F32, shape, {{0, {3, 0, bytes}}}),
                   port("table", DType::F32, {256}, {{0, {6, 0, 1024}}})};
  return plan;
}

// `steps` dispatches over `count` floats of `rounds` rounds each.
inline Plan slow_plan(uint32_t steps, uint32_t count = 64 * 64, uint32_t rounds = 2000) {
  Plan plan;
  plan.precision = "f32";
  plan.buffers = {{"data", uint64_t{4} * count, BufferKind::Storage, 0}, {"params", 256, BufferKind::Params, 0}};
  for (uint32_t value : {count, rounds, 0u, 0u}) append(plan.weights, value);
  plan.weights.resize(256);
  plan.kernels = {slow_kernel()};
  const double flops = 3.0 * count * rounds;
  for (uint32_t i = 0; i < steps; ++i)
    plan.steps.push_back(Dispatch{0,
                                  {{0, 0, uint64_t{4} * count}, {1, 0, 16}},
                                  {(count + 63) / 64, 1, 1},
                                  "slow " + std::to_string(i),
                                  flops,
                                  8.0 * count});
  const Shape shape{static_cast<int64_t>(count)};
  plan.inputs = {port("data", DType::F32, shape, {{0, {0, 0, uint64_t{4} * count}}})};
  plan.outputs = plan.inputs;
  return plan;
}

// 0, 1, 2 … 65535, 0 …: what chain_plan makes of them is exact in f32.
inline Tensor ramp(uint32_t count) {
  std::vector<float> values(count);
  for (uint32_t i = 0; i < count; ++i) values[i] = static_cast<float>(i & 0xFFFFu);
  return Tensor::from_floats({static_cast<int64_t>(count)}, values);
}

}  // namespace gyrus::testing
