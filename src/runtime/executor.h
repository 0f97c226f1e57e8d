#pragma once
#include <map>
#include <memory>
#include <string>

#include "gyrus/device.h"
#include "gyrus/memory.h"
#include "gyrus/run.h"
#include "gyrus/tensor.h"
#include "plan/plan.h"

namespace gyrus {

struct ExecutorOptions {
  double submission_seconds = 0.05;  // aimed at; bounds how long one submission holds the GPU
};

struct ExecutorImpl;
struct RunImpl;
class CpuExecutor;
namespace cpu {
class Network;
}

// A run that was started and goes on by itself. Dropping it drops its results. Its executor must live as long.
class PendingRun {
 public:
  explicit PendingRun(std::unique_ptr<RunImpl> run);
  explicit PendingRun(RunResult result);
  PendingRun(PendingRun&&) noexcept;
  PendingRun& operator=(PendingRun&&) noexcept;
  ~PendingRun();

  // Waits for it; once. Throws what Executor::run throws.
  RunResult finish();

 private:
  std::unique_ptr<RunImpl> run_;
  RunResult result_;  // instead, where it has ended already
};

// A plan loaded onto a device, ready to run any number of times. One thread at a time may use an executor. Several
// executors may run on one device at once, from several threads; those that share a Memory take turns.
class Executor {
 public:
  // Throws OverLimits when the plan does not fit the device, Device when a kernel does not compile, InvalidInput when a
  // state of the plan is another one in `memory`. Without a memory the executor has one of its own.
  Executor(const Device& device, std::shared_ptr<const Plan> plan, const Memory& memory,
           const ExecutorOptions& options = {});
  Executor(const Device& device, Plan plan, const Memory& memory, const ExecutorOptions& options = {});
  Executor(const Device& device, std::shared_ptr<const Plan> plan, const ExecutorOptions& options = {});
  Executor(const Device& device, Plan plan, const ExecutorOptions& options = {});
  // On the CPU a network in the place of a plan.
  Executor(const Device& device, std::shared_ptr<cpu::Network> network, const Memory& memory);
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;
  ~Executor();

  // Runs the plan on these inputs, one for each of the plan's inputs. Throws InvalidInput for inputs, arguments or
  // names that do not fit and for an index out of range, NonFinite where a kernel found such a value, Cancelled, or
  // Device naming the step that was running. The executor stays usable unless the device is lost; what happens to
  // states is said at Memory.
  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& options = {});

  // The same, but returns when all is submitted; finish() waits and gives the results. What is started meanwhile, of
  // this executor or another one, comes behind it on the device and sees the states that it leaves. Where a run fails,
  // those started behind it worked with what it left.
  PendingRun start(const std::map<std::string, Tensor>& inputs, const RunOptions& options = {});

  const Plan& plan() const;  // on the CPU: ports, and steps without texts
  Memory& memory();
  uint64_t allocated_bytes() const;  // of the buffers that it holds: the plan's without its states

 private:
  std::unique_ptr<ExecutorImpl> impl_;
  std::unique_ptr<CpuExecutor> cpu_;  // instead, on the CPU
};

// What a network on the CPU is, in the words of plans.
Plan describe(const cpu::Network& network);

}  // namespace gyrus
