#pragma once
#include <string>
#include <vector>

#include "batch.h"
#include "common.h"

// What `gyrus segment` and `gyrus bids` share.

namespace gyrus::cli {

inline constexpr const char* kDefaultModel = "mindgrab";

struct SegmentArguments {
  std::vector<std::string> scans;
  std::string list, out_dir, model = kDefaultModel;
  std::string output, mask, brain, probabilities, report, picture, qc, trace;  // files of a single scan
  std::vector<std::string> outputs;                                            // kinds, for --out-dir
  std::string normalize, components, space = "native";
  std::vector<std::string> devices;
  double border = 0;
  int64_t volume = -1;
  int jobs = 0;
  bool no_conform = false, fill_holes = false, allow_empty = false, nan_check = false, tables = false, again = false;
  bool profile = false, quiet = false, json = false;
  DeviceArguments device;
};

void add_common_segment_options(CLI::App& command, SegmentArguments& arguments);
PipelineOptions pipeline_options(const SegmentArguments& arguments);

// Throws InvalidInput where --outputs names a kind that does not exist.
void check_outputs(const SegmentArguments& arguments);
// Throws InvalidInput where two scans would write the same files.
void check_distinct(const std::vector<Job>& jobs);
// Makes the folders that results go to.
void make_folders(const std::vector<Job>& jobs);

// Runs them all and says how it went; one failed scan is thrown, of several the exit status tells.
void run_jobs(const std::vector<Job>& jobs, const DescribedModel& model, const SegmentArguments& arguments);
void write_qc(const std::string& path, const Manifest& manifest, const std::vector<Job>& jobs,
              const std::vector<JobResult>& results);
void report_results(const std::vector<Job>& jobs, const std::vector<JobResult>& results,
                    const SegmentArguments& arguments, bool many);

}  // namespace gyrus::cli
