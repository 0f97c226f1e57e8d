#pragma once
#include <memory>
#include <vector>

#include "runtime/device_impl.h"
#include "runtime/executor.h"
#include "runtime/timestamps.h"

namespace gyrus {

struct ExecutorImpl {
  std::shared_ptr<DeviceImpl> device;
  std::shared_ptr<const Plan> plan;
  ExecutorOptions options;
  std::vector<Handle<WGPUBuffer>> buffers;                 // as Plan::buffers
  std::vector<std::shared_ptr<const Pipeline>> pipelines;  // as Plan::kernels
  std::vector<Handle<WGPUBindGroup>> groups;               // as Plan::steps; none for copies and clears
  std::unique_ptr<Timestamps> total_time;                  // of the first and last dispatch; none without the feature
  uint64_t allocated = 0;                                  // bytes, in `buffers`

  void allocate();
  void fill();
  void bind();
  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& run_options);
};

}  // namespace gyrus
