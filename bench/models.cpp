// Runs brain models on a volume and prints GPU time, planned memory and, where reference labels are given, how many
// voxels differ.
//   models VOLUME MODELS_DIR [--reference DIR] [--only NAME,…] [--precision f32,f16] [--limits adapter,default]
//          [--matrix auto|on|off] [--repeat N] [--profile] [--json FILE] [--state-weights]
//   models --adapter      prints the adapter that would be used as JSON
// MODELS_DIR/NAME holds a model; DIR/labels_NAME_*.u8.gz its labels, x fastest. Times are of the network and its argmax
// on the GPU, without transfers: the median, least and most of N runs each after the card was warmed up.
// With --state-weights the weights of convolutions live on the device, and what it costs to arrange them is printed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common.h"
#include "core/error.h"
#include "core/limits.h"
#include "engine/compile.h"
#include "engine/network.h"
#include "graph/rewriter.h"
#include "gyrus/device.h"
#include "passes/passes.h"
#include "plan/lower_conv.h"
#include "plan/planner.h"
#include "runtime/executor.h"
#include "volume/gzip.h"
#include "volume/io.h"
#include "volume/normalize.h"
#include "volume/volume_tensor.h"

using namespace gyrus;
namespace fs = std::filesystem;

namespace {

struct Arguments {
  std::string volume, models, reference, json;
  std::vector<std::string> only, precisions = {"f32", "f16"}, limits = {"adapter", "default"};
  int repeat = 5;
  bool profile = false;
  bool state_weights = false;
  MatrixUse matrix = MatrixUse::Auto;
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
    if (word == "--reference")
      a.reference = next();
    else if (word == "--only")
      a.only = split(next());
    else if (word == "--precision")
      a.precisions = split(next());
    else if (word == "--limits")
      a.limits = split(next());
    else if (word == "--repeat")
      a.repeat = std::stoi(next());
    else if (word == "--matrix")
      a.matrix = parse_matrix(next());
    else if (word == "--json")
      a.json = next();
    else if (word == "--profile")
      a.profile = true;
    else if (word == "--state-weights")
      a.state_weights = true;
    else
      plain.push_back(word);
  }
  if (plain.size() != 2) fail(ErrorCode::InvalidInput, "models", "usage: models VOLUME MODELS_DIR [options]");
  a.volume = plain[0];
  a.models = plain[1];
  return a;
}

std::string normalization_for(const std::string& model) {
  return model == "mindgrab" || model == "model20chan3cls" ? "quantile" : "minmax";
}

std::vector<uint8_t> with_z_fastest(const std::vector<std::byte>& bytes, const Volume& grid) {
  const int64_t nx = grid.dims[0], ny = grid.dims[1], nz = grid.dims[2];
  if (static_cast<int64_t>(bytes.size()) != nx * ny * nz) return {};
  std::vector<uint8_t> labels(bytes.size());
  for (int64_t x = 0; x < nx; ++x)
    for (int64_t y = 0; y < ny; ++y)
      for (int64_t z = 0; z < nz; ++z)
        labels[(x * ny + y) * nz + z] = static_cast<uint8_t>(bytes[(z * ny + y) * nx + x]);
  return labels;
}

// Reference labels with z fastest, or nothing.
std::vector<uint8_t> reference_labels(const std::string& dir, const std::string& model, const Volume& grid) {
  if (dir.empty()) return {};
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("labels_" + model + "_", 0) != 0 || entry.path().extension() != ".gz") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string raw((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    return with_z_fastest(gunzip({reinterpret_cast<const std::byte*>(raw.data()), raw.size()}, uint64_t{1} << 32, name),
                          grid);
  }
  return {};
}

std::vector<std::string> model_names(const Arguments& a) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(a.models)) {
    const std::string name = entry.path().filename().string();
    if (a.only.empty() || std::find(a.only.begin(), a.only.end(), name) != a.only.end()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// One model in one precision under one kind of limits.
struct Measurement {
  std::string model, precision, limits;
  double ms = 0, min_ms = 0, max_ms = 0;
  double flops = 0;
  double prepare_seconds = 0;  // from the model in memory to kernels compiled and weights uploaded
  double wall_ms = 0;          // of one run, with transfers
  uint64_t memory = 0;         // bytes, of all GPU buffers
  bool gpu_timestamps = false;
  int64_t foreground = 0, different = -1;
};

nlohmann::json to_json(const Measurement& m) {
  return {{"peer", "gyrus"},
          {"model", m.model},
          {"precision", m.precision},
          {"limits", m.limits},
          {"ms", m.ms},
          {"min_ms", m.min_ms},
          {"max_ms", m.max_ms},
          {"wall_ms", m.wall_ms},
          {"tflops", m.flops / m.ms * 1e-9},
          {"prepare_s", m.prepare_seconds},
          {"memory_mib", static_cast<double>(m.memory) / 1048576.0},
          {"gpu_timestamps", m.gpu_timestamps},
          {"foreground", m.foreground},
          {"different", m.different}};
}

void print_header() {
  std::printf("%-18s %-4s %-8s %9s %9s %9s %9s %10s %9s %10s %9s\n", "model", "", "limits", "GPU ms", "min", "max",
              "TFLOP/s", "memory MiB", "prepare s", "foreground", "different");
}

void print(const Measurement& m) {
  std::printf("%-18s %-4s %-8s %9.2f %9.2f %9.2f %9.2f %10.1f %9.2f %10ld %9ld\n", m.model.c_str(), m.precision.c_str(),
              m.limits.c_str(), m.ms, m.min_ms, m.max_ms, m.flops / m.ms * 1e-9,
              static_cast<double>(m.memory) / 1048576.0, m.prepare_seconds, static_cast<long>(m.foreground),
              static_cast<long>(m.different));
  std::fflush(stdout);
}

void count_labels(const Tensor& labels, const std::vector<uint8_t>& want, Measurement& m) {
  const uint8_t* values = labels.as<uint8_t>();
  m.different = want.empty() ? -1 : 0;
  for (int64_t i = 0; i < labels.size(); ++i) {
    m.foreground += values[i] != 0;
    if (!want.empty()) m.different += values[i] != want[i];
  }
}

// The graph with the weights of convolutions as states, which are arranged on the device in every run.
Graph with_state_weights(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (node.op == "conv") {
      const ValueInfo& weights = graph.value(node.inputs[1]);
      rewrite.replace(node.inputs[1], rewrite.graph().add_state(weights.name, weights.type, weights.constant));
    }
    rewrite.copy(node);
  }
  return rewrite.finish("with_state_weights");
}

// What it takes to arrange the weights, alone: the arrangements of the plan as a network of their own.
double arranging_ms(const Device& device, const Graph& graph, const Target& target, const PlanOptions& options,
                    int repeat) {
  const Graph arranged = arrange_weights(graph, target, options);
  Graph alone;
  std::vector<ValueId> map(arranged.value_count(), kNoValue);
  copy_sources(arranged, alone, map);
  for (const Node& node : arranged.nodes()) {
    if (node.op != "arrange") continue;
    Node copy = node;
    for (ValueId& id : copy.inputs)
      id = arranged.is_constant(id) ? alone.add_constant("", arranged.value(id).constant) : map[id];
    alone.add_output("weights" + std::to_string(alone.outputs().size()), alone.add_node(std::move(copy))[0]);
  }
  std::map<std::string, Tensor> inputs;  // that no step reads
  for (const Port& input : alone.inputs())
    inputs[input.name] = Tensor(alone.type(input.value).dtype, alone.type(input.value).shape);
  Executor executor(device, make_plan(alone, target, options));
  RunOptions nothing;
  nothing.outputs.emplace();
  bench::WarmUp warm_up(device);
  std::vector<double> times;
  for (int r = 0; r < std::max(repeat, 1) + 1; ++r) {
    warm_up.run();
    times.push_back(executor.run(inputs, nothing).profile.gpu_seconds * 1e3);
  }
  std::sort(times.begin() + 1, times.end());
  return times[1 + (times.size() - 1) / 2];
}

Measurement measure(const Device& device, const Model& model, const Arguments& a,
                    const std::map<std::string, Tensor>& inputs, const std::vector<uint8_t>& want, Measurement m) {
  const AdapterInfo& adapter = device.adapter();
  const Shape& shape = inputs.at("image").shape;
  const auto start = std::chrono::steady_clock::now();
  const Limits limits = m.limits == "default" ? intersect(default_limits(), adapter.limits) : adapter.limits;
  Graph graph = network_graph(model, Shape(shape.begin() + 2, shape.end()), {DType::U8, true, NetworkOutput::Labels});
  if (a.state_weights) graph = with_state_weights(graph);
  const Graph optimized = optimize(graph, m.precision == "f16" ? Precision::F16 : Precision::F32);
  PlanOptions tuning = adapter.type == AdapterType::Software ? software_options() : PlanOptions{};
  tuning.matrix = a.matrix;
  Target target = device.target();
  target.limits = limits;
  Plan plan = make_plan(optimized, target, tuning);
  m.flops = plan.flops();
  m.memory = plan.peak_bytes();
  Executor executor(device, std::move(plan));
  m.prepare_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (executor.allocated_bytes() + executor.memory().bytes() != m.memory)
    fail(ErrorCode::Device, m.model, "allocated memory is not what was planned");
  std::vector<double> times;
  RunResult result = executor.run(inputs);
  bench::WarmUp warm_up(device);
  if (a.repeat == 0) times.push_back(result.profile.gpu_seconds * 1e3);
  for (int r = 0; r < a.repeat; ++r) {
    warm_up.run();
    result = executor.run(inputs);
    times.push_back(result.profile.gpu_seconds * 1e3);
  }
  std::sort(times.begin(), times.end());
  m.ms = times[times.size() / 2];
  m.min_ms = times.front();
  m.max_ms = times.back();
  m.wall_ms = result.profile.wall_seconds * 1e3;
  m.gpu_timestamps = result.profile.gpu_timestamps;
  count_labels(result.outputs.at("labels"), want, m);
  print(m);
  if (a.profile) {
    RunOptions run;
    run.profile = true;
    std::printf("%s\n", profile_table(executor.run(inputs, run).profile).c_str());
  }
  if (a.state_weights) {
    const double ms = arranging_ms(device, optimized, target, tuning, a.repeat);
    std::printf("  arranging weights: %.3f ms, %.2f %%\n", ms, 100 * ms / m.ms);
  }
  return m;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 2 && std::string(argv[1]) == "--adapter") {
    const AdapterInfo found = choose_adapter("webgpu");
    std::printf("%s\n", nlohmann::json({{"device", found.name}, {"type", to_string(found.type)}}).dump().c_str());
    return 0;
  }
  const Arguments a = parse(argc, argv);
  const Volume volume = read_volume(a.volume);
  const Tensor image = to_tensor(volume, DType::U8);
  const Shape spatial(image.shape.begin() + 2, image.shape.end());
  const AdapterInfo adapter = choose_adapter("webgpu");
  DeviceOptions options;
  options.limits = adapter.limits;
  options.features = adapter.features;
  const Device device = open_device(options);
  std::printf("%s (%s), volume %s\n", adapter.name.c_str(), adapter.driver.c_str(), to_string(spatial).c_str());
  print_header();
  nlohmann::json report = {{"device", adapter.name}, {"driver", adapter.driver}, {"shape", spatial}};
  report["results"] = nlohmann::json::array();
  for (const std::string& name : model_names(a)) {
    const Model model = load_model((fs::path(a.models) / name).string());
    const Normalization norm = normalization_of(volume, parse_normalize(normalization_for(name)));
    const std::vector<uint8_t> want = reference_labels(a.reference, name, volume);
    const std::map<std::string, Tensor> inputs = {
        {"image", image},
        {"scale", Tensor::from_floats({1}, {static_cast<float>(norm.scale)})},
        {"shift", Tensor::from_floats({1}, {static_cast<float>(norm.shift)})}};
    for (const std::string& precision : a.precisions)
      for (const std::string& kind : a.limits) {
        Measurement m;
        m.model = name;
        m.precision = precision;
        m.limits = kind;
        report["results"].push_back(to_json(measure(device, model, a, inputs, want, m)));
        if (!a.json.empty()) write_file(a.json, report.dump(1) + "\n");
      }
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "models: %s\n", error.what());
  return 1;
}
