#include <filesystem>

#include "bids.h"
#include "commands.h"
#include "core/error.h"
#include "model_fetch.h"
#include "segment_arguments.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

struct BidsArguments {
  std::string dataset, output, level;
  BidsFilter filter;
  SegmentArguments segment;
};

void check_level(const std::string& level) {
  if (level == "participant") return;
  if (level == "group")
    fail(ErrorCode::Unsupported, "group", "gyrus has no analysis of groups: every scan is done alone, by participant");
  fail(ErrorCode::InvalidInput, level, "is no level of analysis; participant was expected");
}

void run(BidsArguments& arguments) {
  check_level(arguments.level);
  SegmentArguments& segment = arguments.segment;
  check_outputs(segment);
  std::error_code ignored;
  if (fs::equivalent(arguments.dataset, arguments.output, ignored))
    fail(ErrorCode::InvalidInput, arguments.output, "is the dataset itself; results need a folder of their own");
  const auto scans = choose_bids_scans(find_bids_scans(arguments.dataset), arguments.filter, arguments.dataset);
  const DescribedModel model = ready_model(segment.model, segment.quiet);
  const Manifest& manifest = model.manifest;
  segment.out_dir = arguments.output;
  BidsLayout layout{arguments.dataset, arguments.output, manifest.name, segment.outputs,
                    segment.space == "native" ? Space::Native : Space::Conformed};
  std::vector<Job> jobs;
  for (const BidsScan& scan : scans) jobs.push_back(bids_job(layout, scan));
  check_distinct(jobs);
  write_bids_dataset(layout, manifest.labels);
  make_folders(jobs);
  run_jobs(jobs, model, segment);
}

}  // namespace

void add_bids(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bids", "Label the T1w scans of a BIDS dataset, as a BIDS App");
  auto arguments = std::make_shared<BidsArguments>();
  SegmentArguments& segment = arguments->segment;
  command->add_option("DATASET", arguments->dataset, "Folder of the BIDS dataset")->required();
  command->add_option("OUTPUT", arguments->output, "Folder for the derivatives")->required();
  command->add_option("LEVEL", arguments->level, "participant; there is no group level")->required();
  command
      ->add_option("--participant-label,--participant_label", arguments->filter.participants,
                   "Only these participants, with or without sub-")
      ->type_name("A B");
  command
      ->add_option("--session-label,--session_label", arguments->filter.sessions,
                   "Only these sessions, with or without ses-")
      ->type_name("A B");
  command->add_option("-m,--model", segment.model, "A model's folder, file or name")->capture_default_str();
  command
      ->add_option("--outputs", segment.outputs,
                   "Beside labels and mask: brain, probabilities, report, picture, tables")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_common_segment_options(*command, segment);
  command->footer("Example:\n  gyrus bids study study/derivatives/gyrus participant --participant-label 01 02");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
