#include <cstdio>

#include "commands.h"
#include "core/error.h"
#include "network_inputs.h"
#include "verify_report.h"

namespace gyrus::cli {
namespace {

// The reference takes a second or so for the largest of the known models at this size.
constexpr int64_t kCube = 24;

struct VerifyArguments {
  NetworkArguments network;
  std::string bundle = "gyrus-verify";
  bool json = false, quiet = false;
  DeviceArguments device;
};

void run(const VerifyArguments& arguments) {
  DeviceArguments chosen = arguments.device;
  chosen.device = std::to_string(webgpu_adapter(chosen.device, "webgpu", "the checks of verify").index);
  const Network network = load_network(arguments.network, Ends::Segmentation, kCube);
  VerifyOptions options;
  const Device device = open(chosen, options.limits);
  if (arguments.device.precision == "f16") options.precision = Precision::F16;
  options.cancel = &interrupted();
  const Verified found = verify_on(device, network.graph, network.tensors, options);
  const VerifyContext context{arguments.network.model, options.precision == Precision::F16 ? "f16" : "f32",
                              arguments.network.seed, device.adapter()};
  if (arguments.json)
    std::fputs(verify_json(found, context).c_str(), stdout);
  else if (!arguments.quiet)
    std::fputs(verify_table(found).c_str(), stdout);
  if (found.right()) {
    if (!arguments.json && !arguments.quiet)
      std::printf("all %zu nodes are right on %s, %s\n", found.nodes.size(), context.adapter.name.c_str(),
                  context.adapter.driver.c_str());
    return;
  }
  if (!arguments.json) std::fputs(verify_first(found, context).c_str(), stdout);
  write_bundle(arguments.bundle, found, context);
  set_exit_code(kUnexpected);
  say(cat("[verify] this device computes ", arguments.network.model, " wrongly; ", arguments.bundle,
          " holds what a bug report needs"));
}

}  // namespace

void add_verify(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("verify", "Check every node of a model on this device against a slow, exact executor");
  auto arguments = std::make_shared<VerifyArguments>();
  command->add_option("model", arguments->network.model, "An ONNX file, or a model as for segment")->required();
  add_network_options(*command, arguments->network);
  command->add_option("--bundle", arguments->bundle, "Where the first wrong node is written, for a bug report")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_flag("-q,--quiet", arguments->quiet, "Print no line for each node");
  add_device_options(*command, arguments->device);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
