#include <cstdio>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "engine/text.h"
#include "engine/tuner.h"
#include "manifest.h"

namespace gyrus::cli {
namespace {

struct TuneArguments {
  std::string model, size = "256", input = "u8", normalize;
  double seconds = 30;
  DeviceArguments device;
};

Device open_for(const AdapterInfo& adapter, const Limits& limits, const Features& features) {
  DeviceOptions options;
  options.selector = std::to_string(adapter.index);
  options.limits = limits;
  options.features = features;
  options.features.timestamp_query = adapter.features.timestamp_query;
  options.pipeline_cache = "";  // most of what is compiled here is never used again
  return open_device(options);
}

void run(const TuneArguments& arguments) {
  const Shape size = parse_size(arguments.size);
  const Model model = load_model(resolve_model(arguments.model));
  const NormalizeOptions normalize =
      arguments.normalize.empty() ? manifest_of(model).normalize : parse_normalize(arguments.normalize);
  NetworkOptions network;
  network.input = arguments.input == "u8" ? DType::U8 : DType::F32;
  network.clamp = normalize.kind != NormalizeKind::None;
  const SessionOptions options = session_options(arguments.device);
  const AdapterInfo adapter = choose_adapter(options.device);
  if (!adapter.features.timestamp_query)
    fail(ErrorCode::Unsupported, adapter.name, "has no timestamps to measure with; the defaults stay");
  const Target target = target_of(adapter, options.limits);
  const Compiled compiled = compile(model, size, network, target, options.precision);
  const Device device = open_for(adapter, target.limits, compiled.plan.features);
  TuneOptions wanted;
  wanted.budget_seconds = arguments.seconds;
  wanted.observer = [](const ConvTuning& shape, double ms) {
    std::printf("%10.2f ms  %s\n", ms, to_string(shape).c_str());
    std::fflush(stdout);
    check_interrupted();
  };
  std::printf("%s, %s, %s voxels, %s\n", adapter.name.c_str(), model.name.c_str(), extents_text(size).c_str(),
              compiled.plan.precision.c_str());
  const TuneResult result = tune(device, compiled.after, target.limits, target.tuning, wanted);
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
  command->add_option("MODEL", arguments->model, "A model's folder, file or name")->required();
  command->add_option("--size", arguments->size, "Voxels of the volume")->type_name("N|AxBxC")->capture_default_str();
  command->add_option("--input", arguments->input, "Element type of the volume")
      ->check(CLI::IsMember({"u8", "f32"}))
      ->type_name("u8|f32")
      ->capture_default_str();
  command->add_option("--normalize", arguments->normalize, "As for segment")->type_name("HOW");
  command->add_option("--seconds", arguments->seconds, "Begin no further shape after so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_device_options(*command, arguments->device);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
