// Times one packed convolution in several kernel shapes on the adapter at hand: compile time, GPU time, rate.
//   conv_shapes [size [channels [dilation]]]
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "gyrus/device.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "runtime/executor.h"

using namespace gyrus;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Graph conv_graph(int64_t size, int64_t channels, int64_t dilation) {
  Graph graph;
  const ValueId image = graph.add_input("image", {DType::F32, {1, 1, size, size, size}});
  const auto constant = [&](Shape shape, const char* name) {
    Tensor t(DType::F32, shape);
    for (int64_t i = 0; i < t.size(); ++i) set(t, i, 0.1 * static_cast<double>((i * 7919) % 13 - 6));
    return graph.add_constant(name, t);
  };
  const ValueId x =
      graph.add("conv", {image, constant({channels, 1, 1, 1, 1}, "a"), constant({channels}, "b")}, {}, "spread");
  const ValueId y =
      graph.add("conv", {x, constant({channels, channels, 3, 3, 3}, "w"), constant({channels}, "c")},
                {{"dilation", std::vector<int64_t>(3, dilation)}, {"pads", std::vector<int64_t>(6, dilation)}}, "conv");
  const ValueId z = graph.add("conv", {y, constant({1, channels, 1, 1, 1}, "d")}, {}, "gather");
  graph.add_output("out", z);
  return graph;
}

}  // namespace

int main(int argc, char** argv) try {
  const int64_t size = argc > 1 ? std::atoi(argv[1]) : 48;
  const int64_t channels = argc > 2 ? std::atoi(argv[2]) : 16;
  const int64_t dilation = argc > 3 ? std::atoi(argv[3]) : 1;
  const AdapterInfo adapter = choose_adapter("webgpu");
  DeviceOptions options;
  options.limits = adapter.limits;
  options.features.timestamp_query = adapter.features.timestamp_query;
  const Device device = open_device(options);
  std::printf("%s, %ld^3, %ld channels, dilation %ld\n", adapter.name.c_str(), static_cast<long>(size),
              static_cast<long>(channels), static_cast<long>(dilation));
  const Graph graph = optimize(conv_graph(size, channels, dilation), Precision::F32);
  Tensor image(DType::F32, {1, 1, size, size, size});
  for (int64_t i = 0; i < image.size(); ++i) set(image, i, static_cast<double>(i % 101) * 0.01);
  const bool software = adapter.type == AdapterType::Software;
  for (uint32_t workgroup : {64u, 128u, 256u})
    for (uint32_t quads : {1u, 2u, 4u})
      for (uint32_t registers : {1u, 2u, 4u, 8u, 16u, 32u})
        for (bool staged : {false, true}) {
          if (registers < quads || registers > quads * 8 || (software && (workgroup != 64 || registers > 8 || staged)))
            continue;
          if (!software && registers < 8) continue;
          PlanOptions plan;
          plan.conv = {workgroup, registers, quads, staged, true, false};  // Winograd has a shape of its own
          const double start = seconds();
          Executor executor(device, make_plan(graph, adapter.limits, plan));
          const double compiled = seconds();
          RunOptions run;
          run.profile = true;
          double best = 1e30;
          double flops = 0;
          for (int repeat = 0; repeat < 3; ++repeat) {
            const RunResult result = executor.run({{"image", image}}, run);
            double ms = 0;
            flops = 0;
            for (const StepTime& step : result.profile.steps) {
              if (step.label != "conv") continue;
              ms += static_cast<double>(step.end_ns - step.begin_ns) * 1e-6;
              flops += step.flops;
            }
            best = std::min(best, ms);
          }
          std::printf("wg %3u quads %u registers %2u %-6s compile %6.2f s  %9.3f ms  %8.1f GFLOP/s\n", workgroup, quads,
                      registers, staged ? "staged" : "direct", compiled - start, best, flops / best * 1e-6);
          std::fflush(stdout);
        }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
