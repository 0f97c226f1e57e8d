#include "batch.h"

#include <atomic>
#include <filesystem>
#include <mutex>
#include <new>
#include <thread>

#include "channel.h"
#include "core/error.h"

namespace gyrus::cli {
namespace {

struct Moving {
  size_t index = 0;
  Item item;
};

class Batch {
 public:
  Batch(const std::vector<Job>& jobs, const Model& model, const Manifest& manifest, const PipelineOptions& pipeline,
        const BatchOptions& options, Timeline& timeline)
      : jobs_(jobs),
        model_(model),
        manifest_(manifest),
        pipeline_(pipeline),
        options_(options),
        timeline_(timeline),
        results_(jobs.size()),
        threads_(thread_count()),
        prepared_(threads_),
        computed_(threads_) {}

  std::vector<JobResult> run() {
    std::vector<std::string> devices = options_.devices;
    if (devices.empty()) devices.push_back(pipeline_.session.device);
    auto preparing = start(threads_, [this](size_t) { prepare_all(); });
    auto computing = start(devices.size(), [&](size_t i) { compute_all(devices[i]); });
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
      if (guarded(i, [&] { moving.item = prepare(jobs_[i].scan, pipeline_, timeline_); }))
        prepared_.push(std::move(moving));
    }
  }

  void compute_all(const std::string& device) {
    Computer computer(model_, pipeline_, device, timeline_);
    while (std::optional<Moving> moving = prepared_.pop()) {
      const auto progress = [&](double fraction, const std::string& label) {
        const std::lock_guard lock(mutex_);
        show(fraction, label);
        return true;
      };
      if (guarded(moving->index, [&] { computer.compute(moving->item, progress); })) computed_.push(std::move(*moving));
    }
  }

  void finish_all() {
    while (std::optional<Moving> moving = computed_.pop()) {
      const size_t i = moving->index;
      JobResult result;
      const bool done = guarded(i, [&] {
        Item& item = moving->item;
        finish(item, pipeline_, timeline_);
        check_interrupted();
        {
          const Stage stage(timeline_, "finish", "write", item.path);
          result.qc = write_outputs(item, jobs_[i].outputs, options_.outputs, manifest_, pipeline_.space);
        }
        result.summary = summarize(item, jobs_[i].outputs.labels, manifest_, pipeline_, timeline_);
        result.notices = item.notices;
        result.profile = std::move(item.profile);
        result.state = JobState::Done;
      });
      if (done) report(i, std::move(result));
    }
  }

  const std::vector<Job>& jobs_;
  const Model& model_;
  const Manifest& manifest_;
  const PipelineOptions& pipeline_;
  const BatchOptions& options_;
  Timeline& timeline_;
  std::vector<JobResult> results_;
  size_t threads_;
  Channel<Moving> prepared_, computed_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  size_t finished_ = 0;
};

}  // namespace

std::vector<JobResult> run_batch(const std::vector<Job>& jobs, const Model& model, const Manifest& manifest,
                                 const PipelineOptions& pipeline, const BatchOptions& options, Timeline& timeline) {
  return Batch(jobs, model, manifest, pipeline, options, timeline).run();
}

}  // namespace gyrus::cli
