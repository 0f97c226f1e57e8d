#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/tensor.h"
#include "plan/plan.h"
#include "runtime/device.h"
#include "runtime/device_tensor.h"
#include "runtime/memory.h"
#include "runtime/profile.h"

namespace gyrus {

struct ExecutorOptions {
  double submission_seconds = 0.05;  // aimed at; bounds how long one submission holds the GPU
};

struct RunOptions {
  std::map<std::string, double> arguments;            // one for each of the plan's arguments, within its range
  std::map<std::string, DeviceTensor> device_inputs;  // inputs that lie on the device already
  std::optional<std::vector<std::string>> outputs;    // those to read back; all unless given
  std::vector<std::string> captures;                  // those to read back as well
  std::vector<std::string> keep;                      // outputs and captures that stay on the device instead
  // Called after every submission with the part done, 0 to 1 and never less than before, and the label of the last step
  // done; returning false cancels.
  std::function<bool(double fraction, const std::string& label)> progress;
  const std::atomic<bool>* cancel = nullptr;  // set from another thread to cancel
  bool profile = false;                       // time every dispatch; needs the timestamp_query feature
};

struct RunResult {
  std::map<std::string, Tensor> outputs;  // by name, with the captures that were asked for
  std::map<std::string, DeviceTensor> kept;
  Profile profile;
};

struct ExecutorImpl;

// A plan loaded onto a device, ready to run any number of times. One thread at a time may use an executor. Several
// executors may run on one device at once, from several threads; those that share a Memory take turns. A run returns
// when it has ended: to go on meanwhile, give it a thread.
class Executor {
 public:
  // Throws OverLimits when the plan does not fit the device, Device when a kernel does not compile, InvalidInput when a
  // state of the plan is another one in `memory`. Without a memory the executor has one of its own.
  Executor(const Device& device, std::shared_ptr<const Plan> plan, const Memory& memory,
           const ExecutorOptions& options = {});
  Executor(const Device& device, Plan plan, const Memory& memory, const ExecutorOptions& options = {});
  Executor(const Device& device, std::shared_ptr<const Plan> plan, const ExecutorOptions& options = {});
  Executor(const Device& device, Plan plan, const ExecutorOptions& options = {});
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  // Runs the plan on these inputs, one for each of the plan's inputs. Throws InvalidInput for inputs, arguments or
  // names that do not fit and for an index out of range, NonFinite where a kernel found such a value, Cancelled, or
  // Device naming the step that was running. The executor stays usable unless the device is lost; what happens to
  // states is said at Memory.
  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& options = {});

  const Plan& plan() const;
  Memory& memory();
  uint64_t allocated_bytes() const;  // of the buffers that it holds: the plan's without its states

 private:
  std::unique_ptr<ExecutorImpl> impl_;
};

}  // namespace gyrus
