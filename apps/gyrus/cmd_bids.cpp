#include <filesystem>

#include "bids.h"
#include "checks.h"
#include "commands.h"
#include "core/error.h"
#include "engine/known_models.h"
#include "model_fetch.h"
#include "segment_arguments.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

struct BidsArguments {
  std::string dataset, output, level;
  std::vector<std::string> suffixes = {"T1w"};
  BidsFilter filter;
  SegmentArguments segment;
};

void check_level(const std::string& level) {
  if (level != "participant" && level != "group")
    fail(ErrorCode::InvalidInput, level, "is no level of analysis; participant or group was expected");
}

// A model whose one label is the whole brain.
bool strips_skulls(const LabelTable& labels) {
  if (labels.entries.size() != 2) return false;
  std::string name = labels.entries[1].name;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.find("brain") != std::string::npos;
}

void run_group(const BidsLayout& layout, bool quiet) {
  const auto [path, scans] = write_bids_group(layout);
  if (!quiet) say(cat("the volumes of ", scans, scans == 1 ? " scan" : " scans", " are in ", path));
}

void tell_of_absent(const std::vector<BidsScan>& scans, const BidsArguments& arguments) {
  std::string names, suffixes;
  for (const std::string& suffix : arguments.suffixes) suffixes += (suffixes.empty() ? "" : ", ") + suffix;
  for (const std::string& one : participants_without(scans, arguments.dataset))
    names += (names.empty() ? "" : ", ") + one;
  if (!names.empty() && !arguments.segment.quiet)
    say(cat("[", arguments.dataset, "] participants without such a scan (", suffixes, "), left out: ", names));
}

void run(BidsArguments& arguments) {
  check_level(arguments.level);
  SegmentArguments& segment = arguments.segment;
  check_common_arguments(segment);
  std::error_code ignored;
  if (fs::equivalent(arguments.dataset, arguments.output, ignored))
    fail(ErrorCode::InvalidInput, arguments.output, "is the dataset itself; results need a folder of their own");
  for (const std::string& output : segment.outputs)
    if (output == "distance" || output == "freesurfer")
      fail(ErrorCode::InvalidInput, "--outputs", output, " is for gyrus segment: BIDS has no name for it");
  const auto found = find_bids_scans(arguments.dataset, arguments.suffixes);
  const auto scans = choose_bids_scans(found, arguments.filter, arguments.dataset);
  const DescribedModel model = ready_model(segment.model, segment.quiet);
  const Manifest& manifest = model.manifest;
  if (manifest.channels.size() > 1)
    fail(ErrorCode::Unsupported, manifest.name, "looks at ", manifest.channels.size(),
         " scans of a subject, which gyrus bids cannot choose; say gyrus segment --channel");
  segment.out_dir = arguments.output;
  const BidsLayout layout{arguments.dataset,
                          arguments.output,
                          manifest.name,
                          weights_sha256(model.model),
                          strips_skulls(manifest.labels),
                          segment.outputs,
                          segment.space == "native" ? Space::Native : Space::Conformed};
  if (arguments.level == "group" && segment.dry_run) return print_out(group_table_path(layout) + "\n");
  if (arguments.level == "group") return run_group(layout, segment.quiet);
  std::vector<Job> jobs;
  for (const BidsScan& scan : scans) jobs.push_back(bids_job(layout, scan));
  check_distinct(jobs, "a dataset has each scan once");
  if (!segment.dry_run) write_bids_dataset(layout, manifest.labels);
  tell_of_absent(found, arguments);
  run_jobs(jobs, model, segment);
}

}  // namespace

void add_bids(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bids", "Label the scans of a BIDS dataset, as a BIDS App");
  auto arguments = std::make_shared<BidsArguments>();
  SegmentArguments& segment = arguments->segment;
  command->add_option("DATASET", arguments->dataset, "Folder of the BIDS dataset")->required();
  command->add_option("OUTPUT", arguments->output, "Folder for the derivatives")->required();
  command->add_option("LEVEL", arguments->level, "participant, or group for one table of all reports")->required();
  command
      ->add_option("--participant-label,--participant_label", arguments->filter.participants,
                   "Only these participants, with or without sub-")
      ->type_name("A B");
  command
      ->add_option("--session-label,--session_label", arguments->filter.sessions,
                   "Only these sessions, with or without ses-")
      ->type_name("A B");
  command->add_option("--suffix", arguments->suffixes, "Which scans: T1w, T2w, FLAIR or others in anat")
      ->type_name("A B")
      ->capture_default_str();
  command->add_flag_callback(
      "--skip-bids-validator,--skip_bids_validator", [] {}, "Taken as by other BIDS Apps; gyrus does not validate");
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
