#include <cstdio>

#include "commands.h"
#include "compile_arguments.h"
#include "core/error.h"
#include "core/text.h"
#include "engine/tuner.h"

namespace gyrus::cli {
namespace {

struct TuneArguments {
  CompileArguments compile;
  double seconds = 30;
};

Device open_for(const std::string& selector, const Limits& limits, const Features& features) {
  DeviceOptions options;
  options.selector = selector;
  options.limits = limits;
  options.features = features;
  options.features.timestamp_query = true;
  options.pipeline_cache = "";  // most of what is compiled here is never used again
  return open_device(options);
}

void run(const TuneArguments& arguments) {
  const CompileRequest request = read_request(arguments.compile);
  SessionOptions options = session_options(arguments.compile.device);
  // Not software Vulkan by itself: that takes minutes, and is used only where it is named.
  const AdapterInfo adapter = webgpu_adapter(options.device, "gpu", "tunings");
  options.device = std::to_string(adapter.index);
  if (!adapter.features.timestamp_query)
    fail(ErrorCode::Unsupported, adapter.name, "has no timestamps to measure with; the defaults stay");
  CompileTarget target = target_of(adapter, options.limits);
  target.tuning.matrix = options.matrix;
  const Compiled compiled = compile(request.model, request.size, request.network, target, options.precision);
  const Device device = open_for(options.device, target.limits, compiled.plan.features);
  TuneOptions wanted;
  wanted.budget_seconds = arguments.seconds;
  wanted.cancel = &interrupted();
  wanted.observer = [](const ConvTuning& shape, double ms) {
    std::printf("%10.2f ms  %s\n", ms, to_string(shape).c_str());
    std::fflush(stdout);
  };
  std::printf("%s, %s, %s voxels, %s\n", adapter.name.c_str(), request.model.name.c_str(),
              extents_text(request.size).c_str(), compiled.plan.precision.c_str());
  std::fflush(stdout);
  const TuneResult result = tune(device, compiled.after, target, target.tuning, wanted);
  const std::string file = keep_tuning(tuning_key(target.device, compiled.after, target.limits), result);
  std::printf("best: %s, %.2f ms instead of %.2f ms%s\n", to_string(result.best).c_str(), result.best_ms,
              result.base_ms, result.complete ? "" : " (the time was up before all shapes were tried)");
  std::printf("%s\n", file.empty() ? "not kept: there is no cache folder, or GYRUS_NO_CACHE is set"
                                   : ("kept in " + file).c_str());
}

}  // namespace

void add_tune(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tune", "Measure which kernel shapes are fastest here, and keep the answer");
  auto arguments = std::make_shared<TuneArguments>();
  add_compile_options(*command, arguments->compile);
  command->add_option("--seconds", arguments->seconds, "Begin no further shape after so long")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
