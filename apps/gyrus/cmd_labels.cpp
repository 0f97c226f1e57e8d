#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "volume/head_labels.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

struct LabelsArguments {
  std::string scan, segmentation, out;
  HeadLabelOptions options;
  bool quiet = false;
};

std::string list(const std::vector<int64_t>& labels) {
  std::string text;
  for (const int64_t label : labels) text += (text.empty() ? "" : ", ") + std::to_string(label);
  return "[" + text + "]";
}

void run(const LabelsArguments& arguments) {
  volume_format(arguments.out);
  const HeadLabels made =
      head_labels(read_volume(arguments.scan), read_volume(arguments.segmentation), arguments.options);
  WriteOptions write;
  write.labels = true;
  write_volume(arguments.out, made.labels, write);
  if (!arguments.quiet) print_out(cat("\"map\": {\"0\": ", list(made.outside), ", \"1\": ", list(made.brain), "}\n"));
}

}  // namespace

void add_labels(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("labels", "Complete a segmentation of the brain to a label map of the head, to train from");
  auto arguments = std::make_shared<LabelsArguments>();
  command->add_option("scan", arguments->scan, "The scan, whose intensities outside of the brain are clustered")
      ->required()
      ->type_name("SCAN");
  command->add_option("segmentation", arguments->segmentation, "Labels of the brain on the same grid")
      ->required()
      ->type_name("LABELS");
  command->add_option("-o,--output", arguments->out, "The label map")->required()->type_name("FILE");
  command->add_option("--close", arguments->options.close_mm, "Gaps up to twice so many mm belong to the brain")
      ->check(CLI::Range(0.0, 50.0))
      ->capture_default_str();
  command->add_option("--grow", arguments->options.grow_mm, "And so many mm around it")
      ->check(CLI::Range(0.0, 50.0))
      ->capture_default_str();
  command->add_option("--clusters", arguments->options.clusters, "Of intensities outside, beside the air")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  command
      ->add_option("--first", arguments->options.first,
                   "Number of the first new label, so that it is the same for all heads; else behind the largest")
      ->check(CLI::Range(1, 255))
      ->type_name("N");
  command->add_option("--tissues", arguments->options.tissues, "Join the brain's labels to so many, by their intensity")
      ->check(CLI::Range(0, 32))
      ->type_name("N");
  command->add_flag("-q,--quiet", arguments->quiet, "Do not print which labels are brain");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
