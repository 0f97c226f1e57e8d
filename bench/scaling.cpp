// Time and memory of one small network (five dilated 3×3×3 convolutions with ReLU, a head, argmax) for growing volumes
// and channel counts. bench/figure.py draws the result.
//   scaling [--quick] [--json FILE]
#include <chrono>

#include "common.h"
#include "passes/passes.h"

using namespace gyrus;
using namespace gyrus::bench;

namespace {

constexpr const char* kUsage = "scaling [--quick] [--json FILE]";
constexpr int kRepeats = 3;
constexpr int64_t kClasses = 3;

Graph network(int64_t size, int64_t channels) {
  Graph graph;
  ValueId x = graph.add_input("image", {DType::U8, {1, 1, size, size, size}});
  x = graph.add("cast", {x}, {{"to", std::string("f32")}}, "cast");
  int64_t in = 1;
  for (int64_t dilation : {1, 2, 4, 8, 1}) {
    const std::string label = cat("conv", graph.nodes().size());
    x = graph.add("relu", {conv(graph, x, in, channels, 3, dilation, label)}, {}, label);
    in = channels;
  }
  x = conv(graph, x, channels, kClasses, 1, 1, "head");
  graph.add_output("labels", graph.add("argmax", {x}, {{"axis", int64_t{1}}, {"dtype", std::string("u8")}}, "argmax"));
  return graph;
}

nlohmann::json measure(const Device& device, WarmUp& warm_up, int64_t size, int64_t channels) {
  nlohmann::json record = {{"size", size}, {"channels", channels}};
  try {
    const auto start = std::chrono::steady_clock::now();
    Plan plan =
        make_plan(optimize(network(size, channels), Precision::F32), device.adapter().limits, plan_options(device));
    const double flops = plan.flops();
    const uint64_t memory = plan.peak_bytes();
    Executor executor(device, std::move(plan));
    record["prepare_s"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Tensor image(DType::U8, {1, 1, size, size, size});
    for (int64_t i = 0; i < image.size(); ++i) image.as<uint8_t>()[i] = static_cast<uint8_t>(i % 251);
    executor.run({{"image", image}});
    double best = 1e30;
    for (int r = 0; r < kRepeats; ++r) {
      warm_up.run();
      best = std::min(best, executor.run({{"image", image}}).profile.gpu_seconds * 1e3);
    }
    record["ms"] = best;
    record["flops"] = flops;
    record["memory_mib"] = static_cast<double>(memory) / 1048576.0;
    std::printf("%5ld %9ld %12.3f %12.1f %12.2f\n", static_cast<long>(size), static_cast<long>(channels), best,
                static_cast<double>(memory) / 1048576.0, flops / best * 1e-9);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::OverLimits) throw;
    record["error"] = error.what();
    std::printf("%5ld %9ld %s\n", static_cast<long>(size), static_cast<long>(channels), error.what());
  }
  std::fflush(stdout);
  return record;
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments a = parse(argc, argv, kUsage);
  const Device device = bench::open_best();
  std::vector<int64_t> sizes{64, 96, 128, 160, 192, 224, 256, 288, 320};
  std::vector<int64_t> channels{5, 8, 16, 32, 64};
  if (a.quick) sizes = {64, 128, 256, 320};
  if (is_software(device)) {
    sizes = {16, 24, 32, 48};
    channels = {5, 16};
  }
  std::printf("%s\n%5s %9s %12s %12s %12s\n", device.adapter().name.c_str(), "size", "channels", "ms", "memory MiB",
              "TFLOP/s");
  nlohmann::json report = report_of(device);
  WarmUp warm_up(device);
  for (int64_t c : channels)
    for (int64_t size : sizes) {
      report["results"].push_back(measure(device, warm_up, size, c));
      save(a, report);
    }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "scaling: %s\n", error.what());
  return 1;
}
