#pragma once
#include <memory>
#include <vector>

#include "runtime/device_impl.h"
#include "runtime/executor.h"
#include "runtime/memory_impl.h"
#include "runtime/run_ports.h"
#include "runtime/timestamps.h"

namespace gyrus {

struct ExecutorImpl {
  std::shared_ptr<DeviceImpl> device;
  std::shared_ptr<const Plan> plan;
  ExecutorOptions options;
  Memory memory;
  StateWrites writes;
  std::vector<Buffer> owned;                               // all but those of states
  std::vector<WGPUBuffer> buffers;                         // as Plan::buffers
  std::vector<std::shared_ptr<const Pipeline>> pipelines;  // as Plan::kernels
  std::vector<Handle<WGPUBindGroup>> groups;               // as Plan::steps; none for copies and clears
  std::unique_ptr<Timestamps> total_time;                  // of the first and last dispatch; none without the feature

  ExecutorImpl(const Device& on, std::shared_ptr<const Plan> loaded, const Memory& shared)
      : device(on.impl()), plan(std::move(loaded)), memory(shared) {}
  void allocate();
  void attach();
  void fill();
  void bind();
  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options);
  PendingRun start(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options);
  // A run in two halves: until all is submitted, and to the results.
  std::unique_ptr<RunImpl> begin(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options);
  RunResult end(RunImpl& run);

 private:
  void upload_inputs(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options, Profile& profile);
};

}  // namespace gyrus
