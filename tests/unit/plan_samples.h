#pragma once
#include <string>

#include "core/error.h"
#include "plan/plan.h"

namespace gyrus::test {

// A consistent plan with one of everything, under the default limits.
inline Plan sample_plan() {
  Plan plan;
  plan.needs.max_compute_workgroup_storage_size = 4096;
  plan.features.subgroups = true;
  plan.precision = "f16";
  plan.buffers = {{"a", 4096, BufferKind::Storage, 0},
                  {"b", 4096, BufferKind::Storage, 0},
                  {"w \"quoted\" \xC3\xA9", 512, BufferKind::Weights, 256},
                  {"p", 256, BufferKind::Params, 0},
                  {"s", 64, BufferKind::State, 0},
                  {"s", 36, BufferKind::State, 0},
                  {"t", 4, BufferKind::State, 0},
                  {"args", 16, BufferKind::Arguments, 0},
                  {"report", 16, BufferKind::Storage, 0}};
  plan.weights.resize(768);
  for (size_t i = 0; i < plan.weights.size(); ++i) plan.weights[i] = static_cast<std::byte>(i);
  PlanKernel kernel;
  kernel.name = "scale v4";
  kernel.wgsl = "@compute @workgroup_size(8, 8) fn main() {}\n\t// \\ \"\n";
  kernel.workgroup_size = {8, 8, 1};
  kernel.bindings = {BindingKind::ReadStorage, BindingKind::ReadStorage, BindingKind::ReadWriteStorage,
                     BindingKind::Uniform};
  kernel.workgroup_bytes = 4096;
  PlanKernel update;
  update.name = "update";
  update.wgsl = "@compute @workgroup_size(1) fn main() {}";
  update.bindings = {BindingKind::ReadWriteStorage, BindingKind::Uniform, BindingKind::ReadStorage,
                     BindingKind::ReadWriteStorage};
  plan.kernels = {kernel, update};
  plan.steps = {
      Clear{{1, 0, 4096}},
      Dispatch{0, {{0, 256, 1024}, {2, 0, 512}, {1, 512, 1024}, {3, 0, 16}}, {7, 1, 1}, "conv1", 1e9 / 3, 12345.25},
      Copy{{1, 512, 1024}, {0, 0, 1024}},
      Dispatch{1, {{4, 0, 64}, {7, 0, 16}, {7, 0, 8}, {8, 0, 16}}, {1, 1, 1}, "update", 0, 64}};
  plan.inputs = {{"x", DType::F16, {2, 1, 256}, {{0, {0, 256, 512}}, {512, {0, 1024, 512}}}}};
  plan.outputs = {{"y", DType::U8, {1021}, {{0, {1, 512, 1024}}}}};
  plan.captures = {{"scalar", DType::F32, {}, {{0, {1, 0, 4}}}}};
  plan.states = {{{"s", DType::F32, {5, 5}, {{0, {4, 0, 64}}, {64, {5, 0, 36}}}}, 512},
                 {{"t", DType::U8, {3}, {{0, {6, 0, 4}}}}, std::nullopt}};
  plan.arguments = {{"rate", DType::F32, 0, 0.5, 0}, {"position", DType::I32, -1, 24, 8}};
  plan.report = BufferRange{8, 0, 16};
  plan.reports = {{ReportKind::Index, "gather"}, {ReportKind::Finite, "conv1"}};
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

}  // namespace gyrus::test
