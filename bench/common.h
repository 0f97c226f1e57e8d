#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/limits.h"
#include "graph/graph.h"
#include "gyrus/device.h"
#include "plan/planner.h"
#include "runtime/executor.h"
#include "volume/io.h"

// What the benchmark programs share: a device, graphs with made-up weights, a report in JSON.

namespace gyrus::bench {

struct Arguments {
  std::string json;             // file to write
  bool quick = false;           // fewer and smaller cases
  std::string only;             // ops whose name contains it
  bool default_limits = false;  // those of WebGPU instead of the adapter's
};

inline Arguments parse(int argc, char** argv, const char* usage) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" && i + 1 < argc)
      a.json = argv[++i];
    else if (word == "--only" && i + 1 < argc)
      a.only = argv[++i];
    else if (word == "--quick")
      a.quick = true;
    else if (word == "--default-limits")
      a.default_limits = true;
    else
      fail(ErrorCode::InvalidInput, "bench", "usage: ", usage);
  }
  return a;
}

// The best adapter with all its features, and its limits unless others are given.
inline Device open_best(const Limits* limits = nullptr) {
  const AdapterInfo adapter = choose_adapter("webgpu");
  if (!adapter.features.timestamp_query)
    fail(ErrorCode::Device, adapter.name, "has no timestamps, which these benchmarks need");
  DeviceOptions options;
  options.limits = limits ? *limits : adapter.limits;
  options.features = adapter.features;
  return open_device(options);
}

inline bool is_software(const Device& device) { return device.adapter().type == AdapterType::Software; }

inline PlanOptions plan_options(const Device& device) {
  return is_software(device) ? software_options() : PlanOptions{};
}

// A plan of one dispatch of `kernel` over buffers of `bytes` each, the last of them the output.
inline Plan one_dispatch(PlanKernel kernel, size_t buffers, uint64_t bytes, uint32_t groups, double flops,
                         double traffic) {
  Plan plan;
  plan.precision = "f32";
  for (size_t i = 0; i < buffers; ++i) plan.buffers.push_back({cat("data", i), bytes, BufferKind::Storage, 0});
  Dispatch dispatch;
  for (size_t i = 0; i < buffers; ++i) dispatch.bindings.push_back({static_cast<uint32_t>(i), 0, bytes});
  dispatch.groups = {groups, 1, 1};
  dispatch.label = kernel.name;
  dispatch.flops = flops;
  dispatch.bytes = traffic;
  plan.kernels = {std::move(kernel)};
  plan.steps = {Clear{{0, 0, bytes}}, dispatch};
  const uint64_t shown = 4096;
  plan.outputs = {
      {"out", DType::F32, {static_cast<int64_t>(shown / 4)}, {{0, {static_cast<uint32_t>(buffers - 1), 0, shown}}}}};
  return plan;
}

// Sixteen chains of vec4 multiply-adds in every thread.
inline Plan fma_plan(bool software) {
  const uint32_t rounds = software ? 256 : 2048;
  const uint32_t groups = software ? 64 : 8192;
  PlanKernel kernel;
  kernel.name = "fma";
  kernel.workgroup_size = {256, 1, 1};
  kernel.bindings = {BindingKind::ReadWriteStorage};
  std::string start, body, sum;
  for (int i = 0; i < 16; ++i) {
    start += cat("  var x", i, " = vec4<f32>(f32(id.x) * 0.", i + 10, ");\n");
    body += cat("    x", i, " = fma(x", i, ", vec4<f32>(0.9990234375), b);\n");
    sum += cat(i ? " + x" : "x", i);
  }
  kernel.wgsl = cat("@group(0) @binding(0) var<storage, read_write> data: array<vec4<f32>>;\n",
                    "@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3u) {\n",
                    "  let b = vec4<f32>(0.001) + data[1];\n", start, "  for (var i = 0u; i < ", rounds, "u; i++) {\n",
                    body, "  }\n  if (id.x == 0xFFFFFFFFu) { data[2] = ", sum, "; }\n", "  if (all(", sum,
                    " == vec4<f32>(7.5))) { data[3] = vec4<f32>(1.0); }\n}\n");
  const double flops = 256.0 * groups * rounds * 16 * 4 * 2;
  return one_dispatch(std::move(kernel), 1, 4096, groups, flops, 0);
}

// Keeps the GPU busy for a while before something is measured: one that idled, because kernels were compiled or inputs
// uploaded, is not at its full clock.
class WarmUp {
 public:
  explicit WarmUp(const Device& device) : software_(is_software(device)), executor_(device, fma_plan(software_)) {}

  void run() {
    for (double busy = 0; !software_ && busy < 0.2;) busy += executor_.run({}).profile.gpu_seconds;
  }

 private:
  bool software_;
  Executor executor_;
};

inline nlohmann::json report_of(const Device& device) {
  nlohmann::json report = {{"device", device.adapter().name}, {"driver", device.adapter().driver}};
  report["results"] = nlohmann::json::array();
  return report;
}

// After every case, so that what is done survives whatever comes.
inline void save(const Arguments& a, const nlohmann::json& report) {
  if (!a.json.empty()) write_file(a.json, report.dump(1) + "\n");
}

// A constant of small numbers of both signs.
inline ValueId constant(Graph& graph, const Shape& shape, const std::string& name) {
  Tensor t(DType::F32, shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, 0.02 * static_cast<double>((i * 7919) % 13 - 6));
  return graph.add_constant(name, t);
}

inline ValueId conv(Graph& graph, ValueId x, int64_t in, int64_t out, int64_t kernel, int64_t dilation,
                    const std::string& label) {
  const int64_t pad = kernel / 2 * dilation;
  return graph.add(
      "conv",
      {x, constant(graph, {out, in, kernel, kernel, kernel}, label + ".w"), constant(graph, {out}, label + ".b")},
      {{"dilation", std::vector<int64_t>(3, dilation)}, {"pads", std::vector<int64_t>(6, pad)}}, label);
}

inline constexpr int kMeasured = 5;  // runs, of which the least counts

struct Rates {
  double ms = 0, flops = 0, bytes = 0;
  double gflops() const { return flops / ms * 1e-6; }
  double gbytes() const { return bytes / ms * 1e-6; }
};

// The least of a few runs of all steps but those whose label is in `ignored`.
inline Rates measure(WarmUp& warm_up, Executor& executor, const std::map<std::string, Tensor>& inputs,
                     const std::vector<std::string>& ignored) {
  RunOptions run;
  run.profile = true;
  Rates best;
  executor.run(inputs);
  for (int repeat = 0; repeat < kMeasured; ++repeat) {
    warm_up.run();
    Rates now;
    for (const StepTime& step : executor.run(inputs, run).profile.steps) {
      if (std::find(ignored.begin(), ignored.end(), step.label) != ignored.end()) continue;
      now.ms += static_cast<double>(step.end_ns - step.begin_ns) * 1e-6;
      now.flops += step.flops;
      now.bytes += step.bytes;
    }
    if (best.ms == 0 || now.ms < best.ms) best = now;
  }
  return best;
}

}  // namespace gyrus::bench
