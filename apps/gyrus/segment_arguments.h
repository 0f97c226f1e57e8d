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
  std::string name = "{stem}";                                                        // of results in out_dir
  std::string output, mask, brain, probabilities, report, picture, qc, table, trace;  // files of a single scan, of all
  std::vector<std::string> outputs;                                                   // kinds, for --out-dir
  std::string normalize, components, space = "native";
  std::vector<std::string> devices, channels;
  double border = 0, islands = 0, opacity = -1;
  int64_t volume = -1;
  int jobs = 0;
  bool no_conform = false, fill_holes = false, allow_empty = false, nan_check = false, tables = false, again = false;
  bool contours = false, dry_run = false, require_gpu = false;
  bool profile = false, quiet = false, json = false;
  DeviceArguments device;
};

void add_common_segment_options(CLI::App& command, SegmentArguments& arguments);
PipelineOptions pipeline_options(const SegmentArguments& arguments);

// Throws InvalidInput on kinds of --outputs that do not exist and on numbers and options that make no sense.
void check_common_arguments(const SegmentArguments& arguments);

// What a scan's results are called: {stem}, {parent} (its folder), {grandparent} and {path} (all folders as given)
// stand for parts of its path; a slash makes folders. Throws InvalidInput on other words in braces.
std::string result_name(const std::string& pattern, const std::string& scan);

// Checks all names, runs all scans and says how it went; one failed scan is thrown, of several the exit status tells.
// With --dry-run it only says what would be done.
void run_jobs(const std::vector<Job>& jobs, const DescribedModel& model, const SegmentArguments& arguments);

}  // namespace gyrus::cli
