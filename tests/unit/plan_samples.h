#pragma once
#include <string>

#include "core/error.h"
#include "plan/plan.h"

namespace gyrus::testing {

// A consistent plan with one of everything, under the default limits.
inline Plan sample_plan() {
  Plan plan;
  plan.needs.max_compute_workgroup_storage_size = 4096;
  plan.features.subgroups = true;
  plan.precision = "f16";
  plan.buffers = {{"a", 4096, BufferKind::Storage, 0},
                  {"b", 4096, BufferKind::Storage, 0},
                  {"w \"quoted\" \xC3\xA9", 512, BufferKind::Weights, 256},
                  {"p", 256, BufferKind::Params, 0}};
  plan.weights.resize(768);
  for (size_t i = 0; i < plan.weights.size(); ++i) plan.weights[i] = static_cast<std::byte>(i);
  PlanKernel kernel;
  kernel.name = "scale v4";
  kernel.wgsl = "@compute @workgroup_size(8, 8) fn main() {}\n\t// \\ \"\n";
  kernel.workgroup_size = {8, 8, 1};
  kernel.bindings = {BindingKind::ReadStorage, BindingKind::ReadStorage, BindingKind::ReadWriteStorage,
                     BindingKind::Uniform};
  plan.kernels = {kernel};
  plan.steps = {
      Clear{{1, 0, 4096}},
      Dispatch{0, {{0, 256, 1024}, {2, 0, 512}, {1, 512, 1024}, {3, 0, 16}}, {7, 1, 1}, "conv1", 1e9 / 3, 12345.25},
      Copy{{1, 512, 1024}, {0, 0, 1024}}};
  plan.inputs = {{"x", DType::F16, {2, 1, 256}, {{0, {0, 256, 512}}, {512, {0, 1024, 512}}}}};
  plan.outputs = {{"y", DType::U8, {1021}, {{0, {1, 512, 1024}}}}};
  plan.captures = {{"scalar", DType::F32, {}, {{0, {1, 0, 4}}}}};
  return plan;
}

// The error that the body throws; code Io when it throws none.
template <class Body>
Error thrown_by(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::Io, "nothing was thrown");
}

}  // namespace gyrus::testing
