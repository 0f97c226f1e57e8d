#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <set>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "core/files.h"
#include "core/tensor.h"
#include "core/text.h"
#include "engine/model_store.h"
#include "gyrus/program.h"
#include "import/onnx_path.h"
#include "tensor_arguments.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  std::string model, output_dir;
  std::vector<std::string> inputs, bound, shapes, captures;
  bool stats = false, nan_check = false, profile = false;
  uint64_t seed = 1;
  DeviceArguments device;
};

// A network with the names and element types of its file.
struct Network {
  Graph graph;
  std::vector<onnx::OnnxPort> inputs, outputs, captures;
};

Network load_onnx(const onnx::ModelFile& file, const RunArguments& arguments,
                  const std::map<std::string, Shape>& shapes) {
  onnx::ImportOptions options;
  options.subject = file.path;
  options.shapes = shapes;
  options.external = file.external;
  options.captures = arguments.captures;
  options.capture_all = arguments.stats;
  options.bound = read_bound(arguments.bound, file.model);
  onnx::Imported imported = onnx::import_model(file.model, options);
  return {std::move(imported.graph), std::move(imported.inputs), std::move(imported.outputs),
          std::move(imported.captures)};
}

// A model of another format; its ports have the element types of the graph.
Network load_other(const RunArguments& arguments, const std::map<std::string, Shape>& shapes) {
  if (!arguments.bound.empty()) fail(ErrorCode::InvalidInput, "--bind", "is for ONNX models");
  Network network;
  network.graph = load_graph(arguments.model, shapes);
  Graph& graph = network.graph;
  const auto port = [&](const std::string& name, ValueId id) {
    const TensorType& type = graph.type(id);
    return onnx::OnnxPort{name, onnx::elem_of(type.dtype), type.dtype, type.shape};
  };
  for (const Port& p : graph.inputs()) network.inputs.push_back(port(p.name, p.value));
  for (const Port& p : graph.outputs()) network.outputs.push_back(port(p.name, p.value));
  std::set<std::string> found;
  const std::vector<Node> nodes = graph.nodes();
  for (const Node& node : nodes) {
    const bool asked =
        std::find(arguments.captures.begin(), arguments.captures.end(), node.label) != arguments.captures.end();
    if (node.label.empty() || (!asked && !arguments.stats)) continue;
    const std::string name = found.count(node.label) == 0 ? node.label : cat(node.label, ".", node.op);
    if (!found.insert(name).second) continue;
    graph.add_capture(name, node.outputs[0]);
    network.captures.push_back(port(name, node.outputs[0]));
  }
  for (const std::string& name : arguments.captures)
    if (found.count(name) == 0) fail(ErrorCode::InvalidInput, "--capture", "the model has no layer ", in_quotes(name));
  return network;
}

// Floats from -1 to 1; integers 0 and 1, which are indices of nearly anything.
Tensor random_tensor(const onnx::OnnxPort& port, std::mt19937_64& rng) {
  Tensor tensor(port.dtype, port.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double unit = static_cast<double>(rng() >> 11) * 0x1p-53;
    set(tensor, i, is_float(port.dtype) ? 2 * unit - 1 : unit < 0.5 ? 0 : 1);
  }
  return tensor;
}

std::map<std::string, Tensor> make_inputs(const Network& network, const std::map<std::string, Array>& arrays,
                                          uint64_t seed) {
  std::map<std::string, Tensor> inputs;
  std::mt19937_64 rng(seed);
  std::string random;
  for (const onnx::OnnxPort& port : network.inputs) {
    const auto given = arrays.find(port.name);
    if (given != arrays.end()) {
      inputs[port.name] = converted(given->second, port.elem, port.name);
      continue;
    }
    inputs[port.name] = random_tensor(port, rng);
    random += (random.empty() ? "" : ", ") + port.name;
  }
  if (!random.empty()) say(cat("[run] random inputs: ", random));
  return inputs;
}

// What stands in the tables: extremes, mean, zeros and values that are not finite.
struct Summary {
  double least = 0, most = 0, mean = 0, zeros = 0;
  int64_t odd = 0;
};

Summary summary_of(const Tensor& tensor) {
  Summary s;
  s.least = INFINITY;
  s.most = -INFINITY;
  int64_t zeros = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double value = get(tensor, i);
    zeros += value == 0;
    if (!std::isfinite(value)) {
      ++s.odd;
      continue;
    }
    s.least = std::min(s.least, value);
    s.most = std::max(s.most, value);
    s.mean += value;
  }
  const int64_t finite = tensor.size() - s.odd;
  if (finite > 0) s.mean /= static_cast<double>(finite);
  if (finite == 0) s.least = s.most = 0;
  if (tensor.size() > 0) s.zeros = static_cast<double>(zeros) / static_cast<double>(tensor.size());
  return s;
}

void print_table(const char* title, const std::vector<onnx::OnnxPort>& ports,
                 const std::map<std::string, Tensor>& tensors) {
  size_t width = 8;
  for (const onnx::OnnxPort& port : ports) width = std::max(width, port.name.size());
  std::printf("%-*s  %-9s %-20s %12s %12s %12s %7s %10s\n", static_cast<int>(width), title, "type", "shape", "min",
              "max", "mean", "zeros", "not finite");
  for (const onnx::OnnxPort& port : ports) {
    const auto found = tensors.find(port.name);
    if (found == tensors.end()) continue;
    const Summary s = summary_of(found->second);
    std::printf("%-*s  %-9s %-20s %12.6g %12.6g %12.6g %6.1f%% %10lld\n", static_cast<int>(width), port.name.c_str(),
                onnx::to_string(port.elem).c_str(), to_string(found->second.shape).c_str(), s.least, s.most, s.mean,
                100 * s.zeros, static_cast<long long>(s.odd));
  }
}

// A name as a file name: letters, digits, '.', '_' and '-' stay, everything else is '_', and so is a '.' at the start.
std::string file_name(const std::string& name, std::set<std::string>& taken) {
  std::string safe;
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                       c == '-' || (c == '.' && !safe.empty());
    safe += plain ? c : '_';
  }
  std::string unique = safe;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = cat(safe, "_", i);
  return unique + ".npy";
}

void write_outputs(const std::string& folder, const Network& network, const std::map<std::string, Tensor>& tensors) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) fail(ErrorCode::Io, folder, "cannot be made: ", failed.message());
  std::set<std::string> taken;
  for (const auto* ports : {&network.outputs, &network.captures})
    for (const onnx::OnnxPort& port : *ports) {
      const auto found = tensors.find(port.name);
      if (found == tensors.end()) continue;
      const std::vector<std::byte> bytes = write_npy(found->second, port.elem);
      write_file((fs::path(folder) / file_name(port.name, taken)).string(), bytes);
    }
}

Device open(const DeviceArguments& arguments, std::optional<Limits>& limits) {
  find_adapters();
  limits = read_limits(arguments.limits).limits;
  if (!limits) return open_gpu(arguments.device);
  DeviceOptions options;
  options.selector = arguments.device;
  options.limits = *limits;
  return open_device(options);
}

void run(const RunArguments& arguments) {
  const std::map<std::string, Array> arrays = read_arrays(arguments.inputs, "--input");
  const std::map<std::string, Shape> shapes = read_shapes(arguments.shapes, arrays);
  const auto file = onnx::open_model(resolve_model(arguments.model));
  const Network network = file ? load_onnx(*file, arguments, shapes) : load_other(arguments, shapes);
  for (const auto& [name, array] : arrays)
    if (std::none_of(network.inputs.begin(), network.inputs.end(), [&](const auto& p) { return p.name == name; }))
      fail(ErrorCode::InvalidInput, "--input", "the model has no input ", in_quotes(name));
  const std::map<std::string, Tensor> inputs = make_inputs(network, arrays, arguments.seed);
  ProgramOptions options;
  const Device device = open(arguments.device, options.limits);
  if (arguments.device.precision == "f16") options.precision = Precision::F16;
  options.check_finite = arguments.nan_check;
  Program program(device, network.graph, options);
  RunOptions run_options;
  run_options.profile = arguments.profile;
  run_options.cancel = &interrupted();
  for (const onnx::OnnxPort& port : network.captures) run_options.captures.push_back(port.name);
  const RunResult result = program.run(inputs, run_options);
  if (arguments.stats) print_table("node", network.captures, result.outputs);
  if (!arguments.output_dir.empty()) {
    Network written = network;
    if (arguments.stats)
      std::erase_if(written.captures, [&](const onnx::OnnxPort& port) {
        return std::find(arguments.captures.begin(), arguments.captures.end(), port.name) == arguments.captures.end();
      });
    write_outputs(arguments.output_dir, written, result.outputs);
  } else {
    if (arguments.stats) std::printf("\n");
    print_table("output", network.outputs, result.outputs);
    if (!arguments.stats && !network.captures.empty()) print_table("capture", network.captures, result.outputs);
  }
  if (arguments.profile) std::fputs(profile_table(result.profile).c_str(), stderr);
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Run any model that gyrus reads, ONNX among them, on tensors");
  auto arguments = std::make_shared<RunArguments>();
  command->add_option("model", arguments->model, "An ONNX file, or a model as for segment")->required();
  command
      ->add_option("-i,--input", arguments->inputs,
                   "An input from a .npy, .npz or ONNX tensor (.pb) file; those not given are random")
      ->type_name("NAME=FILE");
  command
      ->add_option("--bind", arguments->bound,
                   "An input whose values decide shapes: it becomes a constant of the network")
      ->type_name("NAME=FILE");
  command->add_option("--shape", arguments->shapes, "The shape of an input that is not given")->type_name("NAME=A,B,…");
  command->add_option("--output-dir", arguments->output_dir, "Write each output to DIR/NAME.npy instead of a table")
      ->type_name("DIR");
  command->add_option("--capture", arguments->captures, "Give this value of the network as well")->type_name("NAME");
  command->add_flag("--stats", arguments->stats,
                    "A line for the result of every node: extremes, mean, zeros, not finite");
  command->add_flag("--nan-check", arguments->nan_check, "Test every value; the first that is not finite is named");
  command->add_flag("--profile", arguments->profile, "Print GPU time by kernel");
  command->add_option("--seed", arguments->seed, "Of random inputs")->capture_default_str();
  add_device_options(*command, arguments->device);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
