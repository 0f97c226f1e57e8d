#include "batch.h"

#include <atomic>
#include <deque>
#include <filesystem>
#include <mutex>
#include <new>
#include <thread>

#include "before.h"
#include "channel.h"
#include "claim.h"
#include "common.h"
#include "core/error.h"
#include "engine/known_models.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

struct Moving {
  size_t index = 0;
  Segmentation item;
  Claim claim;
};

class Batch {
 public:
  Batch(const std::vector<Job>& jobs, const DescribedModel& model, const PipelineOptions& pipeline,
        const BatchOptions& options)
      : jobs_(jobs),
        manifest_(model.manifest),
        weights_(weights_sha256(model.model)),
        pipeline_options_(pipeline),
        options_(options),
        results_(jobs.size()),
        threads_(thread_count()),
        prepared_(threads_),
        computed_(threads_) {
    std::vector<std::string> devices = options.devices;
    if (devices.empty()) devices.push_back(pipeline.session.device);
    for (const std::string& device : devices) {
      PipelineOptions own = pipeline;
      own.session.device = device;
      pipelines_.emplace_back(model, own);
    }
  }

  std::vector<JobResult> run() {
    auto preparing = start(threads_, [this](size_t) { prepare_all(); });
    auto computing = start(pipelines_.size(), [this](size_t i) { compute_all(pipelines_[i]); });
    auto finishing = start(threads_, [this](size_t) { finish_all(); });
    join(preparing);
    prepared_.close();
    join(computing);
    computed_.close();
    join(finishing);
    return std::move(results_);
  }

 private:
  size_t thread_count() const {
    const size_t wanted = options_.jobs > 0 ? static_cast<size_t>(options_.jobs)
                                            : std::min<size_t>(4, std::max(1u, std::thread::hardware_concurrency()));
    return std::max<size_t>(1, std::min(wanted, jobs_.size()));
  }

  template <class Body>
  static std::vector<std::thread> start(size_t count, Body body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back(body, i);
    return threads;
  }
  static void join(std::vector<std::thread>& threads) {
    for (std::thread& thread : threads) thread.join();
  }

  // What a layer or device says of itself does not tell which of several scans it was.
  std::string named(size_t index, const std::string& error) const {
    const std::string& scan = jobs_[index].scan;
    return jobs_.size() == 1 || error.find(scan) != std::string::npos ? error : cat("[", scan, "] ", error);
  }

  // Runs a step of a scan; what it throws becomes the scan's result. True where it threw nothing.
  template <class Body>
  bool guarded(size_t index, Body body) {
    JobResult failed;
    try {
      check_interrupted();
      body();
      return true;
    } catch (const Error& error) {
      failed.code = error.code();
      failed.error = named(index, worded(error));
      failed.hints = error.hints();
    } catch (const std::bad_alloc&) {
      failed.code = ErrorCode::OverLimits;
      failed.error = cat("[", jobs_[index].scan, "] the machine has not enough memory for it");
    } catch (const std::exception& error) {
      failed.code = ErrorCode::InvalidInput;
      failed.error = cat("[", jobs_[index].scan, "] ", error.what());
    }
    report(index, std::move(failed));
    return false;
  }

  void report(size_t index, JobResult result) {
    const std::lock_guard lock(mutex_);
    ++finished_;
    results_[index] = std::move(result);
    if (options_.done) options_.done(index, results_[index]);
    show(0, "");
  }

  // mutex_ is held.
  void show(double running, const std::string& label) {
    if (options_.progress)
      options_.progress((static_cast<double>(finished_) + running) / static_cast<double>(jobs_.size()), label);
  }

  // What will have made the results, as far as it is known before the network runs.
  Provenance provenance_of(const Job& job, const SourceFile& source, const std::vector<SourceFile>& others) const {
    Provenance by;
    by.version = GYRUS_VERSION;
    by.model = manifest_.name;
    by.weights = weights_;
    by.options = pipelines_[0].label_options();
    by.scan = job.source.empty() ? job.scan : job.source;
    by.scan_bytes = source.bytes;
    by.scan_sha256 = source.sha256;
    for (size_t i = 0; i < others.size(); ++i) by.options[cat("channel_", i + 1, kHashEnd)] = others[i].sha256;
    return by;
  }

  // Makes what is still missing of a scan whose labels are there. False where that needs the network.
  bool complete(size_t i) {
    const Job& job = jobs_[i];
    check_comparable(job);
    std::vector<SourceFile> others;
    for (const std::string& other : pipelines_[0].other_channels(job.scan)) others.push_back(source_file(other));
    const Provenance made = check_before(job, provenance_of(job, source_file(job.scan), others), options_.outputs);
    if (options_.precision != "auto" && options_.precision != made.precision)
      fail(ErrorCode::InvalidInput, job.scan, job.outputs.labels, " is there already, but made in ", made.precision,
           ": say --again to replace it, or give the results another folder");
    const OutputPaths missing = job.outputs.missing(manifest_.labels);
    if (!missing.probabilities.empty()) return false;
    JobResult result;
    result.state = JobState::Skipped;
    result.completed = missing.files(manifest_.labels);
    if (!result.completed.empty() || options_.tell_all) {
      const Segmentation item = read_before(job, pipeline_options_, manifest_);
      result.qc = write_outputs(item, missing, options_.outputs, manifest_, pipeline_options_.space, made);
    }
    report(i, std::move(result));
    return true;
  }

  bool is_done(size_t i) { return !options_.again && std::filesystem::exists(jobs_[i].outputs.labels) && complete(i); }

  // Reads a scan unless it is done, or another process has it; false where nothing is to be computed.
  bool begin(size_t i, Moving& moving) {
    if (is_done(i)) return false;
    if (options_.claim) {
      moving.claim = Claim(jobs_[i].outputs.labels);
      if (!moving.claim.is_ours()) {
        JobResult result;
        result.state = JobState::Skipped;
        result.claimed_by = moving.claim.owner();
        report(i, std::move(result));
        return false;
      }
      if (is_done(i)) return false;  // in the meantime
    }
    moving.item = pipelines_[0].read(jobs_[i].scan);
    return true;
  }

  void prepare_all() {
    for (size_t i = next_++; i < jobs_.size(); i = next_++) {
      Moving moving{i, {}, {}};
      bool wanted = false;
      if (guarded(i, [&] { wanted = begin(i, moving); }) && wanted) prepared_.push(std::move(moving));
    }
  }

  void compute_all(ScanPipeline& pipeline) {
    RunOptions run;
    run.cancel = &interrupted();
    run.progress = [&](double fraction, const std::string& label) {
      const std::lock_guard lock(mutex_);
      if (!started_ && options_.started && pipeline.session())
        options_.started(pipeline.session()->adapter(), pipeline.session()->flops());
      started_ = true;
      show(fraction, label);
      return true;
    };
    while (std::optional<Moving> moving = prepared_.pop())
      if (guarded(moving->index, [&] { pipeline.compute(moving->item, run); })) computed_.push(std::move(*moving));
  }

  void finish_all() {
    while (std::optional<Moving> moving = computed_.pop()) {
      const size_t i = moving->index;
      JobResult result;
      const bool done = guarded(i, [&] {
        Segmentation& item = moving->item;
        pipelines_[0].finish(item);
        check_interrupted();
        Provenance by = provenance_of(jobs_[i], item.source, item.other_sources);
        by.device = item.facts.adapter.name;
        by.precision = item.facts.precision;
        by.date = date_now();
        {
          const Stage stage(pipeline_options_.timeline, "finish", "write", item.path);
          result.qc = write_outputs(item, jobs_[i].outputs, options_.outputs, manifest_, pipeline_options_.space, by);
        }
        moving->claim.release();
        item.notices = result.qc.report.warnings;
        result.summary = summarize(item, jobs_[i].outputs.labels, manifest_, pipelines_[0].normalize(),
                                   *pipeline_options_.timeline, by);
        result.notices = item.notices;
        result.profile = std::move(item.profile);
        result.state = JobState::Done;
      });
      if (done) report(i, std::move(result));
    }
  }

  const std::vector<Job>& jobs_;
  const Manifest& manifest_;
  std::string weights_;
  const PipelineOptions& pipeline_options_;
  const BatchOptions& options_;
  std::deque<ScanPipeline> pipelines_;  // one for each device; any of them prepares and finishes
  std::vector<JobResult> results_;
  size_t threads_;
  Channel<Moving> prepared_, computed_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  size_t finished_ = 0;
  bool started_ = false;
};

}  // namespace

std::vector<JobResult> run_batch(const std::vector<Job>& jobs, const DescribedModel& model,
                                 const PipelineOptions& pipeline, const BatchOptions& options) {
  return Batch(jobs, model, pipeline, options).run();
}

}  // namespace gyrus::cli
