// Scans along time on the adapter at hand: selective scan, delta rule, linear recurrence, LSTM and a product by expert.
// Scans run in parts and with one lane for each line.
//   scans [--quick] [--only NAME]
#include "gyrus/scans.h"
#include "common.h"
#include "gyrus/routing.h"
#include "nn/recurrent.h"
#include "passes/passes.h"

using namespace gyrus;
using namespace gyrus::bench;

namespace {

const char* const kReadBack = "read back";

struct Case {
  std::string name;
  std::function<Value(Graph&)> build;
};

// Numbers from lo to hi that stay on the device.
Value numbers(Graph& graph, const Shape& shape, double lo, double hi) {
  Tensor tensor(DType::F32, shape);
  float* at = tensor.as<float>();
  uint32_t state = 12345;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    at[i] = static_cast<float>(lo + (hi - lo) * (state >> 8) * 0x1p-24);
  }
  return graph.parameter("p" + std::to_string(graph.states().size()), std::move(tensor));
}

std::vector<Case> cases(bool quick) {
  const int64_t steps = quick ? 256 : 4096, channels = quick ? 64 : 1024;
  std::vector<Case> all;
  for (const int64_t states : {16, 64})
    all.push_back({cat("selective_scan B1 H", channels, " S", steps, " N", states), [=](Graph& g) {
                     const Shape x{1, steps, channels}, row{1, steps, states};
                     return selective_scan(numbers(g, x, -1, 1), numbers(g, x, 0.001, 0.1),
                                           numbers(g, {channels, states}, -8, -1), numbers(g, row, -1, 1),
                                           numbers(g, row, -1, 1))
                         .y;
                   }});
  for (const int64_t width : {64, 128})
    all.push_back({cat("rwkv7 B1 H", channels / 64, " S", steps, " K", width), [=](Graph& g) {
                     const Shape x{1, steps, channels / 64, width};
                     return rwkv7(numbers(g, x, -1, 1), numbers(g, x, 0.9, 1), numbers(g, x, -0.1, 0.1),
                                  numbers(g, x, -1, 1), numbers(g, x, -0.05, 0.05), numbers(g, x, -0.05, 0.05))
                         .y;
                   }});
  all.push_back({cat("linear_scan ", steps, " x ", 4 * channels), [=](Graph& g) {
                   const Shape x{steps, 4 * channels};
                   return linear_scan(numbers(g, x, 0.9, 1), numbers(g, x, -1, 1), 0);
                 }});
  all.push_back({cat("cumsum ", channels, " x ", 4 * steps), [=](Graph& g) {
                   return cumsum(numbers(g, {channels, 4 * steps}, -1, 1), 1);
                 }});
  for (const int64_t hidden : {128, 256})
    all.push_back({cat("lstm B8 S", steps / 4, " H", hidden), [=](Graph& g) {
                     return recurrent_steps(numbers(g, {8, steps / 4, 4 * hidden}, -1, 1),
                                            numbers(g, {hidden, 4 * hidden}, -0.1, 0.1),
                                            numbers(g, {8, 2 * hidden}, -1, 1), false, true);
                   }});
  all.push_back(
      {cat("grouped_matmul 8192 x 1024 x 1024, 64 experts"), [=](Graph& g) {
         const int64_t rows = quick ? 256 : 8192, experts = quick ? 4 : 64, width = quick ? 64 : 1024;
         Tensor chosen(DType::I32, {rows});
         for (int64_t m = 0; m < rows; ++m) chosen.as<int32_t>()[m] = static_cast<int32_t>(m * 7919 % experts);
         const Value groups = group_rows(g.parameter("experts", std::move(chosen)), experts);
         return grouped_matmul(numbers(g, {rows, width}, -1, 1), numbers(g, {experts, width, width}, -1, 1), groups);
       }});
  return all;
}

struct Time {
  double ms = 0, flops = 0;
  size_t steps = 0;
  std::map<std::string, double> kernels;
};

Time measure(const Device& device, const Graph& graph, bool parts) {
  PlanOptions options = plan_options(device);
  options.scans_in_parts = parts;
  Executor executor(device, make_plan(optimize(graph, Precision::F32), device.limits(), options));
  RunOptions run;
  run.profile = true;
  Time best{1e30, 0, 0, {}};
  for (int repeat = 0; repeat < 5; ++repeat) {
    const RunResult result = executor.run({}, run);
    Time now;
    for (const StepTime& step : result.profile.steps) {
      if (step.label == kReadBack) continue;
      now.ms += static_cast<double>(step.end_ns - step.begin_ns) * 1e-6;
      now.flops += step.flops;
      now.kernels[step.kernel] += static_cast<double>(step.end_ns - step.begin_ns) * 1e-6;
      ++now.steps;
    }
    if (now.ms < best.ms) best = now;
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments arguments = parse(argc, argv, "scans [--quick] [--only NAME]");
  const Device device = gyrus::bench::open_best();
  std::printf("%s\n%-44s %10s %12s %6s\n", device.adapter().name.c_str(), "", "parts ms", "a lane ms", "times");
  for (const Case& c : cases(arguments.quick)) {
    if (c.name.find(arguments.only) == std::string::npos) continue;
    Graph graph;
    const Value y = c.build(graph);
    // One number of the result is read, so that what is timed is not the way back.
    graph.set_label(kReadBack);
    graph.output("y", reduce_max(y));
    const Time parts = measure(device, graph, true), whole = measure(device, graph, false);
    std::printf("%-44s %10.3f %12.3f %6.1f  %zu steps, %.2f GFLOP\n", c.name.c_str(), parts.ms, whole.ms,
                whole.ms / parts.ms, parts.steps, parts.flops * 1e-9);
    for (const auto& [kernel, ms] : parts.kernels) std::printf("  %-40s %8.3f ms\n", kernel.c_str(), ms);
    std::fflush(stdout);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "scans: %s\n", error.what());
  return 1;
}
