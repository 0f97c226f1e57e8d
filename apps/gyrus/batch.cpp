#include "batch.h"

#include <atomic>
#include <deque>
#include <filesystem>
#include <mutex>
#include <new>
#include <thread>

#include "channel.h"
#include "common.h"
#include "core/error.h"

namespace gyrus::cli {
namespace {

struct Moving {
  size_t index = 0;
  Segmentation item;
};

class Batch {
 public:
  Batch(const std::vector<Job>& jobs, const DescribedModel& model, const PipelineOptions& pipeline,
        const BatchOptions& options)
      : jobs_(jobs),
        manifest_(model.manifest),
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
      failed.error = worded(error);
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

  void prepare_all() {
    for (size_t i = next_++; i < jobs_.size(); i = next_++) {
      if (!options_.again && std::filesystem::exists(jobs_[i].outputs.labels)) {
        JobResult skipped;
        skipped.state = JobState::Skipped;
        report(i, std::move(skipped));
        continue;
      }
      Moving moving{i, {}};
      if (guarded(i, [&] { moving.item = pipelines_[0].read(jobs_[i].scan); })) prepared_.push(std::move(moving));
    }
  }

  void compute_all(ScanPipeline& pipeline) {
    RunOptions run;
    run.cancel = &interrupted();
    run.progress = [&](double fraction, const std::string& label) {
      const std::lock_guard lock(mutex_);
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
        {
          const Stage stage(pipeline_options_.timeline, "finish", "write", item.path);
          result.qc = write_outputs(item, jobs_[i].outputs, options_.outputs, manifest_, pipeline_options_.space);
        }
        result.summary =
            summarize(item, jobs_[i].outputs.labels, manifest_, pipelines_[0].normalize(), *pipeline_options_.timeline);
        result.notices = item.notices;
        result.profile = std::move(item.profile);
        result.state = JobState::Done;
      });
      if (done) report(i, std::move(result));
    }
  }

  const std::vector<Job>& jobs_;
  const Manifest& manifest_;
  const PipelineOptions& pipeline_options_;
  const BatchOptions& options_;
  std::deque<ScanPipeline> pipelines_;  // one for each device; any of them prepares and finishes
  std::vector<JobResult> results_;
  size_t threads_;
  Channel<Moving> prepared_, computed_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  size_t finished_ = 0;
};

}  // namespace

std::vector<JobResult> run_batch(const std::vector<Job>& jobs, const DescribedModel& model,
                                 const PipelineOptions& pipeline, const BatchOptions& options) {
  return Batch(jobs, model, pipeline, options).run();
}

}  // namespace gyrus::cli
