// Running scans and telling how it went, for `gyrus segment` and `gyrus bids`.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "checks.h"
#include "core/error.h"
#include "core/text.h"
#include "cpu/machine.h"
#include "group_table.h"
#include "leftovers.h"
#include "progress.h"
#include "segment_arguments.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

// Files of all scans together.
std::vector<std::string> common_files(const SegmentArguments& arguments) {
  std::vector<std::string> files;
  for (const std::string* one : {&arguments.qc, &arguments.table, &arguments.trace})
    if (!one->empty()) files.push_back(*one);
  return files;
}

// What can be said without touching a folder.
void check_all_names(const std::vector<Job>& jobs, const LabelTable& classes, const SegmentArguments& arguments) {
  std::vector<std::string> read = arguments.channels;
  if (!arguments.list.empty()) read.push_back(arguments.list);
  check_names(jobs, classes, common_files(arguments), read);
  if (!arguments.table.empty()) table_separator(arguments.table);
}

// Before anything is computed. Folders of many scans are made, those of a single one must be there.
void check_folders(const std::vector<Job>& jobs, const LabelTable& classes, const SegmentArguments& arguments) {
  if (!arguments.out_dir.empty()) make_folders(jobs, classes);
  for (const Job& job : jobs)
    for (const std::string& path : job.outputs.files(classes)) check_writable(path);
  for (const std::string& path : common_files(arguments)) check_writable(path);
}

void print_plan(const std::vector<Job>& jobs, const LabelTable& classes, const SegmentArguments& arguments) {
  for (const Job& job : jobs) {
    std::error_code ignored;
    const bool done = !arguments.again && std::filesystem::exists(job.outputs.labels, ignored);
    std::printf("%s%s\n", job.scan.c_str(), done ? " (its labels are there already)" : "");
    for (const std::string& file : job.outputs.files(classes)) std::printf("  %s\n", file.c_str());
  }
}

// Rough: software Vulkan manages some 2.2 GFLOP/s a core with these networks, the CPU's own kernels 80 with AVX-512
// (AVX3 in Highway's words); what they manage without it is a guess.
void tell_of_software(const AdapterInfo& adapter, double flops, int threads) {
  if (adapter.type != AdapterType::Software && adapter.type != AdapterType::Cpu) return;
  const double flops_per_core = adapter.type == AdapterType::Software              ? 2.2e9
                                : adapter.driver.find("AVX3") != std::string::npos ? 8e10
                                                                                   : 2e10;
  const double seconds = flops / (flops_per_core * (threads > 0 ? threads : cpu::usable_threads()));
  const std::string time = seconds < 90 ? cat(std::ceil(seconds), " s") : cat(std::ceil(seconds / 60), " min");
  say(cat("no GPU is used: ", adapter.name,
          adapter.type == AdapterType::Cpu ? " computes, about " : " computes on the CPU, about ", time,
          " a scan; gyrus devices shows what there is, --require-gpu refuses this"));
}

void refuse_software(const SegmentArguments& arguments) {
  if (!arguments.require_gpu) return;
  for (const std::string& device :
       arguments.devices.empty() ? std::vector{arguments.device.device} : arguments.devices) {
    const AdapterInfo adapter = choose_adapter(device);
    if (adapter.type == AdapterType::Software || adapter.type == AdapterType::Cpu)
      fail(ErrorCode::Device, adapter.name, "computes on the CPU, which --require-gpu refuses; check the GPU's driver");
  }
}

bool is_left(const JobResult& result) { return !result.claimed_by.empty(); }

void tell(const Job& job, const JobResult& result) {
  if (result.state == JobState::Failed) return say(result.error);
  if (result.state == JobState::Done) return say(result.summary.text);
  if (is_left(result))
    return say(cat("[", job.scan, "] is left to another process that works on it (", result.claimed_by,
                   "); if there is none, remove ", job.outputs.labels, ".claim"));
  std::string files;
  for (const std::string& file : result.completed) files += (files.empty() ? "" : ", ") + file;
  say(cat("[", job.scan, "] is done already (--again does it anew)",
          files.empty() ? "" : "; what was missing was made: " + files));
}

// Takes the pictures out of the results: of a thousand scans they are some megabytes.
void write_qc(const std::string& path, const Manifest& manifest, const std::vector<Job>& jobs,
              std::vector<JobResult>& results) {
  std::vector<QcEntry> entries;
  for (size_t i = 0; i < jobs.size(); ++i) {
    entries.push_back({jobs[i].scan, std::move(results[i].qc.png), results[i].qc.report, {}});
    if (results[i].state == JobState::Failed) entries.back().error = results[i].error;
    if (is_left(results[i]))
      entries.back().error = cat("not done yet: another process works on it (", results[i].claimed_by, ")");
  }
  write_file(path, qc_page(cat("gyrus ", manifest.name), entries));
}

void write_table(const std::string& path, const std::vector<JobResult>& results) {
  std::vector<Report> reports;
  for (const JobResult& result : results)
    if (result.state != JobState::Failed && !is_left(result)) reports.push_back(result.qc.report);
  write_file(path, group_table(reports, table_separator(path)));
  if (const auto absent = std::count_if(results.begin(), results.end(), is_left))
    say(cat("[", path, "] lacks ", absent, absent == 1 ? " scan" : " scans",
            " on which other processes work; say the same again when they are done"));
}

// Scans that other processes had: what they finished in the meantime is read for page and table, and what they left,
// since they were killed, is done.
void look_again(const std::vector<Job>& jobs, const DescribedModel& model, const PipelineOptions& pipeline,
                BatchOptions batch, std::vector<JobResult>& results) {
  std::vector<size_t> theirs;
  std::vector<Job> left;
  for (size_t i = 0; i < jobs.size(); ++i)
    if (is_left(results[i])) {
      theirs.push_back(i);
      left.push_back(jobs[i]);
    }
  if (left.empty() || batch.again) return;
  remove_leftovers(left, model.manifest.labels, {});
  batch.progress = {};
  batch.done = [&theirs, done = batch.done](size_t i, const JobResult& result) {
    if (done && result.state != JobState::Skipped) done(theirs[i], result);
  };
  std::vector<JobResult> found = run_batch(left, model, pipeline, batch);
  for (size_t i = 0; i < found.size(); ++i) results[theirs[i]] = std::move(found[i]);
}

Json json_of(const Job& job, const JobResult& result) {
  if (result.state == JobState::Done) return result.summary.json;
  if (result.state == JobState::Skipped) {
    Json json{{"scan", job.scan}, {"skipped", true}, {"completed", result.completed}};
    if (!result.claimed_by.empty()) json["claimed_by"] = result.claimed_by;
    return json;
  }
  std::vector<std::string> hints;
  for (const Hint hint : result.hints) hints.emplace_back(to_string(hint));
  return {{"scan", job.scan}, {"error", result.error}, {"code", to_string(result.code)}, {"hints", hints}};
}

void report_results(const std::vector<Job>& jobs, const std::vector<JobResult>& results,
                    const SegmentArguments& arguments, bool many) {
  check_interrupted();
  if (!many && results[0].state == JobState::Failed) throw Error(results[0].code, results[0].error);
  Json summaries = Json::array();
  std::vector<size_t> failed;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const JobResult& result = results[i];
    if (!arguments.quiet)
      for (const std::string& notice : result.notices) say(cat("[", jobs[i].scan, "] ", notice));
    summaries.push_back(json_of(jobs[i], result));
    if (result.state == JobState::Failed) failed.push_back(i);
    if (arguments.profile) std::fputs(profile_table(result.profile).c_str(), stderr);
  }
  if (arguments.json) print_out(dump(many ? summaries : summaries[0]) + "\n");
  if (!many && !arguments.quiet && !arguments.json) tell(jobs[0], results[0]);
  // With --quiet, too: these scans have no results yet.
  if (const auto left = std::count_if(results.begin(), results.end(), is_left))
    say(cat(left, " of ", jobs.size(), jobs.size() == 1 ? " scan is" : " scans are", " left to other processes"));
  if (failed.empty()) return;
  say(cat(failed.size(), " of ", jobs.size(), " scans failed:"));
  for (const size_t i : failed) say(cat("  ", results[i].error));
  set_exit_code(kSomeFailed);
}

BatchOptions batch_options(const SegmentArguments& arguments, size_t scans, bool many) {
  BatchOptions batch;
  batch.jobs = arguments.jobs;
  batch.devices = arguments.devices;
  batch.precision = arguments.device.precision;
  batch.again = arguments.again || !many;
  batch.claim = many;
  batch.tell_all = !arguments.qc.empty() || !arguments.table.empty();
  batch.outputs.border_mm = arguments.border;
  batch.outputs.all_volumes = arguments.all_volumes;
  batch.outputs.qc_scans = arguments.qc.empty() ? 0 : scans;
  batch.outputs.overlay.contours = arguments.contours;
  batch.outputs.overlay.opacity = arguments.opacity >= 0 ? arguments.opacity : arguments.contours ? 0 : 0.5;
  return batch;
}

}  // namespace

void run_jobs(const std::vector<Job>& jobs, const DescribedModel& model, const SegmentArguments& arguments) {
  const LabelTable& classes = model.manifest.labels;
  check_all_names(jobs, classes, arguments);
  if (arguments.dry_run) return print_plan(jobs, classes, arguments);
  check_folders(jobs, classes, arguments);
  Timeline timeline;
  remove_leftovers(jobs, classes, common_files(arguments));
  PipelineOptions pipeline = pipeline_options(arguments);
  refuse_software(arguments);
  pipeline.timeline = &timeline;
  const bool many = jobs.size() > 1 || !arguments.out_dir.empty();
  BatchOptions batch = batch_options(arguments, jobs.size(), many);
  ProgressBar bar(!arguments.quiet);
  batch.progress = [&](double fraction, const std::string& label) { bar.show(fraction, label); };
  batch.started = [&](const AdapterInfo& adapter, double flops) {
    if (!arguments.quiet) tell_of_software(adapter, flops, arguments.device.threads);
  };
  batch.done = [&](size_t i, const JobResult& result) {
    if (!many || (result.code == ErrorCode::Cancelled && result.state == JobState::Failed)) return;
    if (arguments.quiet && result.state != JobState::Failed) return;
    bar.clear();
    tell(jobs[i], result);
  };
  std::vector<JobResult> results = run_batch(jobs, model, pipeline, batch);
  look_again(jobs, model, pipeline, batch, results);
  bar.clear();
  if (!arguments.trace.empty()) write_file(arguments.trace, timeline.trace());
  check_interrupted();  // a page or table of a part would replace that of all
  if (!arguments.qc.empty()) write_qc(arguments.qc, model.manifest, jobs, results);
  if (!arguments.table.empty()) write_table(arguments.table, results);
  report_results(jobs, results, arguments, many);
}

}  // namespace gyrus::cli
