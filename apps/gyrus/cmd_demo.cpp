#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "core/text.h"
#include "demo.h"
#include "engine/pipeline.h"
#include "progress.h"
#include "volume/dice.h"
#include "volume/io.h"
#include "volume/phantom.h"
#include "volume/picture.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLeastSize = 32;  // below, the folds of the cortex are thinner than a voxel
constexpr int64_t kMostSize = 512;

struct DemoArguments {
  int64_t size = 128;
  uint64_t seed = 1;
  std::string out = "gyrus-demo";
  bool json = false, quiet = false, files = false;
  DeviceArguments device;
};

struct DemoResult {
  Phantom phantom;
  Segmentation item;
  std::string device;
  std::vector<LabelOverlap> overlaps;
};

DemoResult segment_phantom(const DemoArguments& arguments, Timeline& timeline) {
  DemoResult result;
  PhantomOptions phantom;
  phantom.dims = {arguments.size, arguments.size, arguments.size};
  phantom.seed = arguments.seed;
  {
    const Stage stage(&timeline, "prepare", "phantom", "phantom");
    result.phantom = make_phantom(phantom);
  }
  DescribedModel model;
  {
    const Stage stage(&timeline, "prepare", "read the demo model", "phantom");
    model = demo_model();
  }
  PipelineOptions options;
  options.conform = false;
  options.session = session_options(arguments.device);
  options.timeline = &timeline;
  ScanPipeline pipeline(model, options);
  result.item = pipeline.prepare(result.phantom.image, "phantom");
  ProgressBar bar(!arguments.quiet && !arguments.json);
  RunOptions run;
  run.cancel = &interrupted();
  run.progress = [&](double fraction, const std::string& label) {
    bar.show(fraction, label);
    return true;
  };
  pipeline.compute(result.item, run);
  pipeline.finish(result.item);
  result.device = result.item.facts.adapter.name;
  result.overlaps = label_overlaps(result.item.labels, result.phantom.truth);
  return result;
}

std::string dice_text(double dice) {
  char text[16];
  std::snprintf(text, sizeof text, "%.3f", dice);
  return text;
}

void make_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) fail(ErrorCode::Io, path, "cannot be made: ", failed.message());
}

// The head and the model as files, for other programs; needs no GPU.
void write_files(const DemoArguments& arguments) {
  make_folder(arguments.out);
  PhantomOptions phantom;
  phantom.dims = {arguments.size, arguments.size, arguments.size};
  phantom.seed = arguments.seed;
  std::vector<std::string> files = write_demo_model(arguments.out);
  files.push_back((fs::path(arguments.out) / "head.nii.gz").string());
  write_volume(files.back(), make_phantom(phantom).image);
  if (arguments.json)
    std::printf("%s\n", nlohmann::ordered_json{{"files", files}}.dump(2).c_str());
  else if (!arguments.quiet)
    for (const std::string& file : files) std::printf("%s\n", file.c_str());
}

// The results in the folder: scan, truth, labels, picture.
std::vector<std::string> write_results(const DemoArguments& arguments, const DemoResult& result) {
  const auto in_folder = [&](const char* name) { return (fs::path(arguments.out) / name).string(); };
  WriteOptions labels;
  labels.labels = true;
  write_volume(in_folder("head.nii.gz"), result.phantom.image);
  write_volume(in_folder("truth.nii.gz"), result.phantom.truth, labels);
  write_volume(in_folder("labels.nii.gz"), result.item.labels, labels);
  const LabelTable table = phantom_labels();
  PictureOptions picture;
  picture.title = cat("phantom, seed ", arguments.seed);
  for (const LabelEntry& entry : table.entries) {
    std::string text;
    for (const LabelOverlap& overlap : result.overlaps)
      if (overlap.label == entry.value) text = "Dice " + dice_text(overlap.dice());
    picture.values.push_back(text);
  }
  write_file(in_folder("picture.png"),
             encode_png(picture_of_slices(result.phantom.image, result.item.labels, table, picture)));
  return {in_folder("head.nii.gz"), in_folder("truth.nii.gz"), in_folder("labels.nii.gz"), in_folder("picture.png")};
}

void print_json(const DemoArguments& arguments, const DemoResult& result, const std::vector<std::string>& files) {
  nlohmann::ordered_json out = {{"size", arguments.size}, {"seed", arguments.seed}, {"device", result.device}};
  for (const LabelOverlap& overlap : result.overlaps)
    out["dice"][to_string(static_cast<Tissue>(overlap.label))] = overlap.dice();
  out["gpu_seconds"] = result.item.profile.gpu_seconds;
  out["files"] = files;
  std::printf("%s\n", out.dump(2).c_str());
}

void print_text(const DemoArguments& arguments, const DemoResult& result, const std::vector<std::string>& files,
                double seconds) {
  std::printf("a phantom head of %lld voxels a side, segmented on %s\n", static_cast<long long>(arguments.size),
              result.device.c_str());
  std::printf("network %s, in all %s\n\n%-12s %8s %12s\n", seconds_text(result.item.profile.gpu_seconds).c_str(),
              seconds_text(seconds).c_str(), "tissue", "Dice", "voxels");
  for (const LabelOverlap& overlap : result.overlaps)
    std::printf("%-12s %8s %12lld\n", to_string(static_cast<Tissue>(overlap.label)), dice_text(overlap.dice()).c_str(),
                static_cast<long long>(overlap.voxels_a));
  std::printf("\nwritten:\n");
  for (const std::string& file : files) std::printf("  %s\n", file.c_str());
}

void run(const DemoArguments& arguments) {
  if (arguments.size < kLeastSize || arguments.size > kMostSize)
    fail(ErrorCode::InvalidInput, "--size", arguments.size, " is not between ", kLeastSize, " and ", kMostSize);
  if (arguments.files) return write_files(arguments);
  make_folder(arguments.out);
  Timeline timeline;
  const DemoResult result = segment_phantom(arguments, timeline);
  const std::vector<std::string> files = write_results(arguments, result);
  if (arguments.json)
    print_json(arguments, result, files);
  else if (!arguments.quiet)
    print_text(arguments, result, files, timeline.now());
}

}  // namespace

void add_demo(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("demo", "Make a synthetic head, segment it with a built-in model and compare with the truth");
  auto arguments = std::make_shared<DemoArguments>();
  command->add_option("--size", arguments->size, "Voxels a side")->type_name("N")->capture_default_str();
  command->add_option("--seed", arguments->seed, "Another seed makes another head")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--out", arguments->out, "Folder for the results")->type_name("DIR")->capture_default_str();
  command->add_flag("--files", arguments->files, "Only write the head and the model's files; run nothing");
  add_device_options(*command, arguments->device);
  command->add_flag("-q,--quiet", arguments->quiet, "Say nothing unless it fails");
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
