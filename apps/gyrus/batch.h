#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "outputs.h"
#include "summary.h"

// Many scans: reading and conforming, computing, and finishing and writing each have threads of their own, so that the
// GPU does not wait for files.

namespace gyrus::cli {

struct Job {
  std::string scan;
  OutputPaths outputs;
  std::string source{};  // what results call the scan; its path where empty
};

enum class JobState : uint8_t { Done, Skipped, Failed };

struct JobResult {
  JobState state = JobState::Failed;
  ErrorCode code = ErrorCode::Cancelled;  // of a failure
  std::string error;                      // with its hints as options of this program
  std::vector<Hint> hints;
  std::vector<std::string> notices;    // warnings too
  std::vector<std::string> completed;  // files that a scan that was done already lacked
  std::string claimed_by;              // another process works on it
  Summary summary;                     // of what is done
  Profile profile;
  QcEntry qc;
};

struct BatchOptions {
  int jobs = 0;                      // threads to prepare and as many to finish; 0: by the number of cores
  std::string precision = "auto";    // as asked for
  std::vector<std::string> devices;  // one thread each; empty: the session options' device
  bool again = false;                // also where the labels exist already
  bool claim = false;                // leave scans alone that another process works on
  bool tell_all = false;             // reports and pictures of scans that were done already, too
  OutputOptions outputs;
  // Called from any thread, one at a time: how far all is, and each result as it comes.
  std::function<void(double fraction, const std::string& label)> progress;
  std::function<void(size_t index, const JobResult&)> done;
  // Once, when the first network runs.
  std::function<void(const AdapterInfo&, double flops)> started;
};

// One result for each job, in their order. An error of a scan is in its result; after Ctrl-C the remaining ones fail
// with Cancelled. Never throws for a scan's sake. The pipeline's options must name a timeline.
std::vector<JobResult> run_batch(const std::vector<Job>& jobs, const DescribedModel& model,
                                 const PipelineOptions& pipeline, const BatchOptions& options);

}  // namespace gyrus::cli
