// Runs brain models on a volume and prints GPU time, planned memory and, where reference labels are given, how many
// voxels differ.
//   models VOLUME MODELS_DIR [--reference DIR] [--only NAME,…] [--precision f32,f16] [--limits adapter,default]
//          [--repeat N] [--profile]
// MODELS_DIR/NAME holds a model; DIR/labels_NAME_*.u8.gz its labels, x fastest.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "core/limits.h"
#include "engine/network.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "volume/gzip.h"
#include "volume/io.h"
#include "volume/normalize.h"
#include "volume/volume_tensor.h"

using namespace gyrus;
namespace fs = std::filesystem;

namespace {

struct Arguments {
  std::string volume, models, reference;
  std::vector<std::string> only, precisions = {"f32", "f16"}, limits = {"adapter", "default"};
  int repeat = 5;
  bool profile = false;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  std::vector<std::string> plain;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&] {
      if (i + 1 >= argc) fail(ErrorCode::InvalidInput, word, "needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--reference") a.reference = next();
    else if (word == "--only") a.only = split(next());
    else if (word == "--precision") a.precisions = split(next());
    else if (word == "--limits") a.limits = split(next());
    else if (word == "--repeat") a.repeat = std::stoi(next());
    else if (word == "--profile") a.profile = true;
    else plain.push_back(word);
  }
  if (plain.size() != 2) fail(ErrorCode::InvalidInput, "models", "usage: models VOLUME MODELS_DIR [options]");
  a.volume = plain[0];
  a.models = plain[1];
  return a;
}

std::string normalization_for(const std::string& model) {
  return model == "mindgrab" || model == "model20chan3cls" ? "quantile" : "minmax";
}

// Reference labels with z fastest, or nothing.
std::vector<uint8_t> reference_labels(const std::string& dir, const std::string& model, const Volume& grid) {
  if (dir.empty()) return {};
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("labels_" + model + "_", 0) != 0) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string raw((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto bytes = gunzip({reinterpret_cast<const std::byte*>(raw.data()), raw.size()}, uint64_t{1} << 32, name);
    const int64_t nx = grid.dims[0], ny = grid.dims[1], nz = grid.dims[2];
    std::vector<uint8_t> labels(bytes.size());
    for (int64_t x = 0; x < nx; ++x)
      for (int64_t y = 0; y < ny; ++y)
        for (int64_t z = 0; z < nz; ++z) labels[(x * ny + y) * nz + z] = static_cast<uint8_t>(bytes[(z * ny + y) * nx + x]);
    return labels;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments a = parse(argc, argv);
  const Volume volume = read_volume(a.volume);
  const Tensor image = to_tensor(volume, DType::U8);
  const Shape spatial(image.shape.begin() + 2, image.shape.end());
  const AdapterInfo adapter = choose_adapter("");
  DeviceOptions options;
  options.limits = adapter.limits;
  options.features = adapter.features;
  const Device device = open_device(options);
  const bool software = adapter.type == AdapterType::Software;
  std::printf("%s (%s), volume %s\n", adapter.name.c_str(), adapter.driver.c_str(), to_string(spatial).c_str());
  std::printf("%-18s %-4s %-8s %9s %9s %10s %9s %10s %9s\n", "model", "", "limits", "GPU ms", "TFLOP/s", "memory MiB", "prepare s",
              "foreground", "different");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(a.models)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (!a.only.empty() && std::find(a.only.begin(), a.only.end(), name) == a.only.end()) continue;
    const Model model = load_model((fs::path(a.models) / name).string());
    const Normalization norm = normalization_of(volume, parse_normalize(normalization_for(name)));
    const std::vector<uint8_t> want = reference_labels(a.reference, name, volume);
    const std::map<std::string, Tensor> inputs = {{"image", image},
                                                  {"scale", Tensor::from_floats({1}, {static_cast<float>(norm.scale)})},
                                                  {"shift", Tensor::from_floats({1}, {static_cast<float>(norm.shift)})}};
    for (const std::string& precision : a.precisions)
      for (const std::string& kind : a.limits) {
        const auto start = std::chrono::steady_clock::now();
        const Limits limits = kind == "default" ? intersect(default_limits(), adapter.limits) : adapter.limits;
        const Graph graph = network_graph(model, spatial, {DType::U8, true, NetworkOutput::Labels});
        Plan plan = make_plan(optimize(graph, precision == "f16" ? Precision::F16 : Precision::F32), limits,
                              software ? software_options() : PlanOptions{});
        const double flops = plan.flops();
        const uint64_t planned = plan.peak_bytes();
        Executor executor(device, std::move(plan));
        const double prepared = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (executor.allocated_bytes() != planned) fail(ErrorCode::Device, name, "allocated memory is not what was planned");
        std::vector<double> times;
        RunResult result;
        for (int r = 0; r < a.repeat; ++r) {
          result = executor.run(inputs);
          times.push_back(result.profile.gpu_seconds * 1e3);
        }
        std::sort(times.begin(), times.end());
        const Tensor& labels = result.outputs.at("labels");
        int64_t foreground = 0;
        int64_t different = want.empty() ? -1 : 0;
        for (int64_t i = 0; i < labels.size(); ++i) {
          foreground += labels.as<uint8_t>()[i] != 0;
          if (!want.empty()) different += labels.as<uint8_t>()[i] != want[i];
        }
        const double ms = times[times.size() / 2];
        std::printf("%-18s %-4s %-8s %9.2f %9.2f %10.1f %9.2f %10ld %9ld\n", name.c_str(), precision.c_str(), kind.c_str(), ms,
                    flops / ms * 1e-9, static_cast<double>(planned) / 1048576.0, prepared, static_cast<long>(foreground),
                    static_cast<long>(different));
        std::fflush(stdout);
        if (a.profile) {
          RunOptions run;
          run.profile = true;
          std::printf("%s\n", profile_table(executor.run(inputs, run).profile).c_str());
        }
      }
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "models: %s\n", error.what());
  return 1;
}
