#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "gyrus/tensor.h"
#include "plan/plan.h"
#include "runtime/device.h"
#include "runtime/profile.h"

namespace gyrus {

struct ExecutorOptions {
  double submission_seconds = 0.05;  // aimed at; bounds how long one submission holds the GPU
};

struct RunOptions {
  // Called after every submission with the part done, 0 to 1 and never less than before, and the label of the last step
  // done; returning false cancels.
  std::function<bool(double fraction, const std::string& label)> progress;
  const std::atomic<bool>* cancel = nullptr;  // set from another thread to cancel
  bool profile = false;                       // time every dispatch; needs the timestamp_query feature
  bool captures = false;                      // return the plan's captures too
};

struct RunResult {
  std::map<std::string, Tensor> outputs;  // by name, with the captures when they were asked for
  Profile profile;
};

struct ExecutorImpl;

// A plan loaded onto a device, ready to run any number of times. One thread at a time may use an executor; several
// executors may run on one device at once.
class Executor {
 public:
  // Throws OverLimits when the plan does not fit the device, Device when a kernel does not compile.
  Executor(const Device& device, std::shared_ptr<const Plan> plan, const ExecutorOptions& options = {});
  Executor(const Device& device, Plan plan, const ExecutorOptions& options = {});
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  // Runs the plan on these inputs, one for each of the plan's inputs. Throws InvalidInput for inputs that do not fit,
  // Cancelled, or Device naming the step that was running; after Cancelled the executor stays usable.
  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& options = {});

  const Plan& plan() const;
  uint64_t allocated_bytes() const;  // of the plan's buffers: equal to plan().peak_bytes()

 private:
  std::unique_ptr<ExecutorImpl> impl_;
};

}  // namespace gyrus
