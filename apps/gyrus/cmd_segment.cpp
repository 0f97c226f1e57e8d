#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "batch.h"
#include "commands.h"
#include "core/error.h"
#include "core/text.h"
#include "leftovers.h"
#include "model_fetch.h"
#include "progress.h"
#include "segment_arguments.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

bool wants(const SegmentArguments& arguments, const std::string& output) {
  return std::find(arguments.outputs.begin(), arguments.outputs.end(), output) != arguments.outputs.end();
}

std::vector<std::string> read_list(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(path);
  std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<std::string> scans;
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (!line.empty() && line[0] != '#') scans.push_back(line);
  }
  return scans;
}

Job single_job(const SegmentArguments& arguments, const std::string& scan) {
  Job job{scan, {}};
  OutputPaths& paths = job.outputs;
  paths.labels = arguments.output.empty() ? stem_of(scan) + "_labels.nii.gz" : arguments.output;
  paths.mask = arguments.mask;
  paths.brain = arguments.brain;
  paths.probabilities = arguments.probabilities;
  paths.report = arguments.report;
  paths.picture = arguments.picture;
  if (arguments.tables) {
    const std::string stem = (fs::path(paths.labels).parent_path() / stem_of(paths.labels)).string();
    paths.sidecar = stem + ".json";
    paths.itksnap = stem + "_itksnap.txt";
    paths.freesurfer = stem + "_freesurfer.txt";
  }
  return job;
}

Job folder_job(const SegmentArguments& arguments, const std::string& scan) {
  const std::string stem = (fs::path(arguments.out_dir) / stem_of(scan)).string();
  Job job{scan, {}};
  OutputPaths& paths = job.outputs;
  paths.labels = stem + "_labels.nii.gz";
  if (wants(arguments, "mask")) paths.mask = stem + "_mask.nii.gz";
  if (wants(arguments, "brain")) paths.brain = stem + "_brain.nii.gz";
  if (wants(arguments, "probabilities")) paths.probabilities = stem + "_probability.nii.gz";
  if (wants(arguments, "report")) paths.report = stem + "_report.json";
  if (wants(arguments, "picture")) paths.picture = stem + "_picture.png";
  if (wants(arguments, "tables")) {
    paths.sidecar = stem + "_labels.json";
    paths.itksnap = stem + "_labels_itksnap.txt";
    paths.freesurfer = stem + "_labels_freesurfer.txt";
  }
  return job;
}

std::vector<Job> make_jobs(const SegmentArguments& arguments) {
  std::vector<std::string> scans = arguments.scans;
  if (!arguments.list.empty()) {
    const std::vector<std::string> listed = read_list(arguments.list);
    scans.insert(scans.end(), listed.begin(), listed.end());
  }
  if (scans.empty()) fail(ErrorCode::InvalidInput, "segment", "no scan was given");
  if (arguments.out_dir.empty()) {
    if (scans.size() > 1) fail(ErrorCode::InvalidInput, "segment", "several scans need --out-dir");
    return {single_job(arguments, scans[0])};
  }
  for (const std::string* one : {&arguments.output, &arguments.mask, &arguments.brain, &arguments.probabilities,
                                 &arguments.report, &arguments.picture})
    if (!one->empty())
      fail(ErrorCode::InvalidInput, "--out-dir", "chooses the names itself: say --outputs instead of ", *one);
  std::vector<Job> jobs;
  for (const std::string& scan : scans) jobs.push_back(folder_job(arguments, scan));
  check_distinct(jobs);
  make_folders(jobs);
  return jobs;
}

void check_arguments(const SegmentArguments& arguments) {
  if (arguments.json && arguments.output == "-")
    fail(ErrorCode::InvalidInput, "-o", "standard output cannot take both the labels and --json");
  check_outputs(arguments);
  if (!arguments.outputs.empty() && arguments.out_dir.empty())
    fail(ErrorCode::InvalidInput, "--outputs", "is for --out-dir; one scan has an option for each file");
}

}  // namespace

void check_outputs(const SegmentArguments& arguments) {
  static const std::set<std::string> kOutputs = {"mask", "brain", "probabilities", "report", "picture", "tables"};
  for (const std::string& output : arguments.outputs)
    if (!kOutputs.count(output))
      fail(ErrorCode::InvalidInput, "--outputs", "\"", output,
           "\" is none of mask, brain, probabilities, report, picture, tables");
}

void check_distinct(const std::vector<Job>& jobs) {
  std::map<std::string, std::string> taken;
  for (const Job& job : jobs) {
    const auto [other, is_new] = taken.emplace(job.outputs.labels, job.scan);
    if (!is_new) fail(ErrorCode::InvalidInput, job.scan, "would write the same files as ", other->second);
  }
}

void make_folders(const std::vector<Job>& jobs) {
  std::set<fs::path> folders;
  for (const Job& job : jobs)
    for (const std::string* path : {&job.outputs.labels, &job.outputs.picture})
      if (!path->empty()) folders.insert(fs::path(*path).parent_path());
  for (const fs::path& folder : folders) {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) fail(ErrorCode::Io, folder.string(), "cannot be made: ", failed.message());
  }
}

PipelineOptions pipeline_options(const SegmentArguments& arguments) {
  PipelineOptions options;
  options.session = session_options(arguments.device);
  if (!arguments.normalize.empty()) options.normalize = parse_normalize(arguments.normalize);
  options.conform = !arguments.no_conform;
  options.space = arguments.space == "native" ? Space::Native : Space::Conformed;
  options.frame = arguments.volume;
  if (!arguments.components.empty()) options.largest_component = arguments.components == "largest";
  if (arguments.fill_holes) options.fill_holes = true;
  options.allow_empty = arguments.allow_empty;
  options.check_finite = arguments.nan_check;
  options.probabilities = !arguments.probabilities.empty() || wants(arguments, "probabilities");
  options.profile = arguments.profile || !arguments.trace.empty();
  return options;
}

void run_jobs(const std::vector<Job>& jobs, const DescribedModel& model, const SegmentArguments& arguments) {
  Timeline timeline;
  remove_leftovers(jobs, model.manifest.labels);
  PipelineOptions pipeline = pipeline_options(arguments);
  pipeline.timeline = &timeline;
  const bool many = jobs.size() > 1 || !arguments.out_dir.empty();
  BatchOptions batch;
  batch.jobs = arguments.jobs;
  batch.devices = arguments.devices;
  batch.again = arguments.again || !many;
  batch.outputs.border_mm = arguments.border;
  batch.outputs.qc = !arguments.qc.empty();
  ProgressBar bar(!arguments.quiet);
  batch.progress = [&](double fraction, const std::string& label) { bar.show(fraction, label); };
  batch.done = [&](size_t i, const JobResult& result) {
    if (!many || (result.code == ErrorCode::Cancelled && result.state == JobState::Failed)) return;
    if (arguments.quiet && result.state != JobState::Failed) return;
    bar.clear();
    if (result.state == JobState::Failed)
      say(result.error);
    else if (result.state == JobState::Skipped)
      say(cat("[", jobs[i].scan, "] is done already (--again does it anew)"));
    else
      std::fputs(result.summary.text.c_str(), stderr);
  };
  const std::vector<JobResult> results = run_batch(jobs, model, pipeline, batch);
  bar.clear();
  if (!arguments.trace.empty()) write_file(arguments.trace, timeline.trace());
  if (!arguments.qc.empty()) write_qc(arguments.qc, model.manifest, jobs, results);
  report_results(jobs, results, arguments, many);
}

void write_qc(const std::string& path, const Manifest& manifest, const std::vector<Job>& jobs,
              const std::vector<JobResult>& results) {
  std::vector<QcEntry> entries;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (results[i].state == JobState::Skipped) continue;
    entries.push_back(results[i].qc);
    entries.back().name = jobs[i].scan;
    if (results[i].state == JobState::Failed) entries.back().error = results[i].error;
  }
  write_file(path, qc_page(cat("gyrus ", manifest.name), entries));
}

void report_results(const std::vector<Job>& jobs, const std::vector<JobResult>& results,
                    const SegmentArguments& arguments, bool many) {
  check_interrupted();
  if (!many && results[0].state == JobState::Failed) throw Error(results[0].code, results[0].error);
  nlohmann::ordered_json summaries = nlohmann::ordered_json::array();
  std::vector<size_t> failed;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const JobResult& result = results[i];
    if (!arguments.quiet)
      for (const std::string& notice : result.notices) say(cat("[", jobs[i].scan, "] ", notice));
    if (result.state == JobState::Done) summaries.push_back(result.summary.json);
    if (result.state == JobState::Skipped) summaries.push_back({{"scan", jobs[i].scan}, {"skipped", true}});
    if (result.state == JobState::Failed) {
      failed.push_back(i);
      std::vector<std::string> hints;
      for (const Hint hint : result.hints) hints.emplace_back(to_string(hint));
      summaries.push_back(
          {{"scan", jobs[i].scan}, {"error", result.error}, {"code", to_string(result.code)}, {"hints", hints}});
    }
    if (arguments.profile) std::fputs(profile_table(result.profile).c_str(), stderr);
  }
  if (arguments.json) std::printf("%s\n", (many ? summaries : summaries[0]).dump(2).c_str());
  if (!many && !arguments.quiet && !arguments.json) std::fputs(results[0].summary.text.c_str(), stderr);
  if (failed.empty()) return;
  say(cat(failed.size(), " of ", jobs.size(), " scans failed:"));
  for (const size_t i : failed) say(cat("  ", results[i].error));
  set_exit_code(kSomeFailed);
}

void add_common_segment_options(CLI::App& command, SegmentArguments& arguments) {
  command.add_flag("--no-conform", arguments.no_conform, "Take the volume's grid as it is");
  command.add_option("--space", arguments.space, "Grid of the results: the scan's own, or the conformed one")
      ->check(CLI::IsMember({"native", "conformed"}))
      ->capture_default_str();
  command.add_option("--volume", arguments.volume, "Which volume of a 4-D file, from 0")->type_name("K");
  command
      .add_option("--normalize", arguments.normalize,
                  "How intensities come to [0, 1]; the model's own way if not given")
      ->type_name("minmax|quantile[:lo,hi]|none");
  command
      .add_option("--components", arguments.components,
                  "Keep all connected parts of a label, or the largest of each; the model's own way if not given")
      ->check(CLI::IsMember({"keep", "largest"}));
  command.add_flag("--fill-holes", arguments.fill_holes, "Fill background that is enclosed by labels");
  command.add_flag("--allow-empty", arguments.allow_empty, "Accept results without any label");
  command.add_flag("--nan-check", arguments.nan_check,
                   "Test every value of the network; name the first layer that overflows");
  command.add_option("--border", arguments.border, "Grow (or, negative, shrink) mask and brain by so many mm")
      ->type_name("MM")
      ->capture_default_str();
  add_device_options(command, arguments.device);
  command.add_option("--devices", arguments.devices, "Several GPUs at once, as for --device")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--jobs", arguments.jobs, "Threads that read and write scans while the GPU works")->type_name("N");
  command.add_flag("--again", arguments.again, "Also segment scans whose labels exist in the folder");
  command.add_option("--qc", arguments.qc, "Write one HTML page to look through the results")->type_name("FILE.html");
  command.add_flag("--profile", arguments.profile, "Print GPU time by kernel");
  command.add_option("--trace", arguments.trace, "Write a Chrome/Perfetto trace")->type_name("FILE");
  command.add_flag("-q,--quiet", arguments.quiet, "Say nothing unless it fails");
  command.add_flag("--json", arguments.json, "Print a summary as JSON on standard output");
}

void add_segment(CLI::App& app) {
  CLI::App* command = app.add_subcommand("segment", "Label the voxels of one scan or of many");
  auto arguments = std::make_shared<SegmentArguments>();
  command->add_option("VOLUME", arguments->scans, "NIfTI or MGH files; - is standard input");
  command->add_option("-m,--model", arguments->model, "A model's folder, file or name")->capture_default_str();
  command
      ->add_option("-o,--output", arguments->output,
                   "Label map to write (.nii or .nii.gz); - is standard output; else SCAN_labels.nii.gz here")
      ->type_name("FILE");
  command->add_option("--mask", arguments->mask, "Also write a brain mask")->type_name("FILE");
  command->add_option("--brain", arguments->brain, "Also write the scan with zero outside the mask")->type_name("FILE");
  command->add_option("--probabilities", arguments->probabilities, "Also write a map of each class, 0 to 1")
      ->type_name("FILE");
  command->add_option("--report", arguments->report, "Also write volumes and intensities of labels (.json, .csv, .tsv)")
      ->type_name("FILE");
  command->add_option("--picture", arguments->picture, "Also write slices with the labels in colours (.png)")
      ->type_name("FILE");
  command->add_flag("--tables", arguments->tables,
                    "Also write names and colours of labels: JSON, ITK-SNAP, FreeSurfer");
  command->add_option("--out-dir", arguments->out_dir, "Write the results of all scans to this folder")
      ->type_name("DIR");
  command->add_option("--list", arguments->list, "A file that names a scan in each line")->type_name("FILE");
  command
      ->add_option("--outputs", arguments->outputs,
                   "With --out-dir, beside labels: mask, brain, probabilities, report, picture, tables")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_common_segment_options(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  gyrus segment scan.nii.gz -m models/mindgrab -o labels.nii.gz --brain brain.nii.gz --picture look.png\n"
      "  gyrus segment *.nii.gz -m models/model18cls --out-dir results --outputs report,picture --qc results/qc.html");
  command->callback([arguments] {
    check_arguments(*arguments);
    const std::vector<Job> jobs = make_jobs(*arguments);
    run_jobs(jobs, ready_model(arguments->model, arguments->quiet), *arguments);
  });
}

}  // namespace gyrus::cli
