#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "commands.h"
#include "core/files.h"
#include "network_inputs.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  NetworkArguments network;
  std::string output_dir;
  bool nan_check = false, profile = false;
  DeviceArguments device;
};

void print_table(const char* title, const std::vector<onnx::OnnxPort>& ports,
                 const std::map<std::string, Tensor>& tensors) {
  size_t width = 8;
  for (const onnx::OnnxPort& port : ports) width = std::max(width, port.name.size());
  std::printf("%-*s  %-9s %-20s %12s %12s %12s %7s %10s\n", static_cast<int>(width), title, "type", "shape", "min",
              "max", "mean", "zeros", "not finite");
  for (const onnx::OnnxPort& port : ports) {
    const auto found = tensors.find(port.name);
    if (found == tensors.end()) continue;
    const ValueRange s = summary_of(found->second);
    std::printf("%-*s  %-9s %-20s %12.6g %12.6g %12.6g %6.1f%% %10lld\n", static_cast<int>(width), port.name.c_str(),
                onnx::to_string(port.elem).c_str(), to_string(found->second.shape).c_str(), s.least, s.most, s.mean,
                100 * s.zeros, static_cast<long long>(s.odd));
  }
}

void write_outputs(const std::string& folder, const Network& network, const std::map<std::string, Tensor>& tensors) {
  make_folder(folder);
  std::set<std::string> taken;
  for (const auto* ports : {&network.outputs, &network.captures})
    for (const onnx::OnnxPort& port : *ports) {
      const auto found = tensors.find(port.name);
      if (found == tensors.end()) continue;
      const std::vector<std::byte> bytes = write_npy(found->second, port.elem);
      write_file((fs::path(folder) / (file_name(port.name, taken) + ".npy")).string(), bytes);
    }
}

void run(const RunArguments& arguments) {
  const Network network = load_network(arguments.network);
  ProgramOptions options;
  const Device device = open(arguments.device, options.limits);
  PrecisionChoice precision = parse_precision(arguments.device.precision);
  options.matrix = matrix_use(arguments.device, precision);
  if (precision == PrecisionChoice::F16) options.precision = Precision::F16;
  options.check_finite = arguments.nan_check;
  Program program(device, network.graph, options);
  RunOptions run_options;
  run_options.profile = arguments.profile;
  run_options.cancel = &interrupted();
  for (const onnx::OnnxPort& port : network.captures) run_options.captures.push_back(port.name);
  const RunResult result = program.run(network.tensors, run_options);
  const bool stats = arguments.network.capture_all;
  if (stats) print_table("node", network.captures, result.outputs);
  if (!arguments.output_dir.empty()) {
    Network written = network;
    const std::vector<std::string>& asked = arguments.network.captures;
    if (stats)
      std::erase_if(written.captures, [&](const onnx::OnnxPort& port) {
        return std::find(asked.begin(), asked.end(), port.name) == asked.end();
      });
    write_outputs(arguments.output_dir, written, result.outputs);
  } else {
    if (stats) std::printf("\n");
    print_table("output", network.outputs, result.outputs);
    if (!stats && !network.captures.empty()) print_table("capture", network.captures, result.outputs);
  }
  if (arguments.profile) std::fputs(profile_table(result.profile).c_str(), stderr);
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Run any model that gyrus reads, ONNX among them, on tensors");
  auto arguments = std::make_shared<RunArguments>();
  command->add_option("model", arguments->network.model, "An ONNX file, or a model as for segment")->required();
  add_network_options(*command, arguments->network);
  command->add_option("--output-dir", arguments->output_dir, "Write each output to DIR/NAME.npy instead of a table")
      ->type_name("DIR");
  command->add_option("--capture", arguments->network.captures, "Give this value of the network as well")
      ->type_name("NAME");
  command->add_flag("--stats", arguments->network.capture_all,
                    "A line for the result of every node: extremes, mean, zeros, not finite");
  command->add_flag("--nan-check", arguments->nan_check, "Test every value; the first that is not finite is named");
  command->add_flag("--profile", arguments->profile, "Print GPU time by kernel");
  add_device_options(*command, arguments->device);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
