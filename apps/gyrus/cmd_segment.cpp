#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/error.h"
#include "engine/text.h"
#include "pipeline.h"
#include "progress.h"
#include "summary.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

struct SegmentArguments {
  std::string scan, model, output, normalize, components, space = "native", trace;
  int64_t volume = -1;
  bool no_conform = false, profile = false, quiet = false, json = false;
  DeviceArguments device;
};

PipelineOptions pipeline_options(const SegmentArguments& arguments, const Manifest& manifest) {
  PipelineOptions options;
  options.session = session_options(arguments.device);
  options.normalize = arguments.normalize.empty() ? manifest.normalize : parse_normalize(arguments.normalize);
  options.conform = !arguments.no_conform;
  options.space = arguments.space == "native" ? Space::Native : Space::Conformed;
  options.frame = arguments.volume;
  options.largest_component = arguments.components == "largest";
  options.profile = arguments.profile || !arguments.trace.empty();
  return options;
}

void check_arguments(const SegmentArguments& arguments) {
  if (arguments.json && arguments.output == "-")
    fail(ErrorCode::InvalidInput, "-o", "standard output cannot take both the labels and --json");
}

void run(const SegmentArguments& arguments) {
  check_arguments(arguments);
  Timeline timeline;
  const Model model = load_model(resolve_model(arguments.model));
  const Manifest manifest = manifest_of(model);
  const PipelineOptions options = pipeline_options(arguments, manifest);
  Item item = prepare(arguments.scan, options, timeline);
  check_interrupted();
  Computer computer(model, options, timeline);
  {
    ProgressBar bar(!arguments.quiet);
    computer.compute(item, [&](double fraction, const std::string& label) {
      bar.show(fraction, label);
      return true;
    });
  }
  finish(item, options, timeline);
  check_interrupted();
  {
    const Stage stage(timeline, "finish", "write", item.path);
    WriteOptions write;
    write.labels = true;
    write_volume(arguments.output, item.labels, write);
  }
  if (!arguments.trace.empty()) write_file(arguments.trace, timeline.trace());
  if (!arguments.quiet)
    for (const std::string& notice : item.notices) say(cat("[", item.path, "] ", notice));
  const Summary summary{item, arguments.output, manifest, options, *computer.session(), timeline};
  if (arguments.json)
    std::printf("%s\n", summary_json(summary).c_str());
  else if (!arguments.quiet)
    std::fputs(summary_text(summary).c_str(), stderr);
  if (arguments.profile) std::fputs(profile_table(item.profile).c_str(), stderr);
}

}  // namespace

void add_segment(CLI::App& app) {
  CLI::App* command = app.add_subcommand("segment", "Label the voxels of a scan");
  auto arguments = std::make_shared<SegmentArguments>();
  command->add_option("VOLUME", arguments->scan, "NIfTI or MGH file; - is standard input")->required();
  command->add_option("-m,--model", arguments->model, "A model's folder, file or name")->required();
  command->add_option("-o,--output", arguments->output, "Label map to write (.nii or .nii.gz); - is standard output")
      ->required()
      ->type_name("FILE");
  command->add_flag("--no-conform", arguments->no_conform, "Take the volume's grid as it is");
  command->add_option("--space", arguments->space, "Grid of the results: the scan's own, or the conformed one")
      ->check(CLI::IsMember({"native", "conformed"}))
      ->type_name("native|conformed")
      ->capture_default_str();
  command->add_option("--volume", arguments->volume, "Which volume of a 4-D file, from 0")->type_name("K");
  command
      ->add_option("--normalize", arguments->normalize,
                   "How intensities come to [0, 1]; the model's own way if not given")
      ->type_name("minmax|quantile[:lo,hi]|none");
  command
      ->add_option("--components", arguments->components, "Keep all connected parts of a label, or the largest of each")
      ->check(CLI::IsMember({"keep", "largest"}))
      ->type_name("keep|largest");
  add_device_options(*command, arguments->device);
  command->add_flag("--profile", arguments->profile, "Print GPU time by kernel");
  command->add_option("--trace", arguments->trace, "Write a Chrome/Perfetto trace")->type_name("FILE");
  command->add_flag("-q,--quiet", arguments->quiet, "Say nothing unless it fails");
  command->add_flag("--json", arguments->json, "Print a summary as JSON on standard output");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
