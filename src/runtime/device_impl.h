#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "cpu/thread_pool.h"
#include "gyrus/device.h"
#include "plan/plan.h"
#include "runtime/adapters.h"
#include "runtime/buffer.h"
#include "runtime/handles.h"
#include "runtime/pace.h"
#include "runtime/staging.h"

// The inside of a Device: what executors share.

namespace gyrus {

// What the device's callbacks recorded; they may come from any thread, and after the Device is gone.
struct DeviceEvents {
  std::mutex mutex;
  bool lost = false;
  std::string lost_reason;
  bool adapters_released = false;  // after the loss
  std::string first_error;         // since the last check
};

// A kernel ready to be dispatched.
struct Pipeline {
  Handle<WGPUBindGroupLayout> layout;
  Handle<WGPUComputePipeline> pipeline;
};

struct DeviceImpl {
  std::shared_ptr<AdapterRegistry> registry;  // keeps the instance
  WGPUInstance instance = nullptr;
  AdapterInfo adapter;
  Limits limits;
  Features features;
  std::optional<uint64_t> fail_allocation_at;
  std::shared_ptr<DeviceEvents> events = std::make_shared<DeviceEvents>();

  Handle<WGPUDevice> device;
  Handle<WGPUQueue> queue;
  std::mutex scope_mutex;  // error scopes are a stack of the device: one user at a time
  uint64_t buffers_created = 0;
  std::shared_ptr<std::atomic<uint64_t>> buffer_bytes = std::make_shared<std::atomic<uint64_t>>(0);  // that live
  std::unordered_map<std::string, std::shared_ptr<const Pipeline>> pipelines;  // by kernel text, entry and bindings
  std::mutex pipelines_mutex;
  Pace pace;
  std::shared_ptr<cpu::ThreadPool> pool;  // of the CPU; then there is no WebGPU device
  StagingPool staging;

  explicit DeviceImpl(AdapterType type) : pace(type) {}
  ~DeviceImpl();

  bool lost() const;
  // Throws Device when the device is lost or an error was reported; `doing` says what was being done.
  void check(const std::string& doing) const;
  void wait_for(WGPUFuture future) const { wait(instance, future); }
  // Waits until the queue has done everything submitted so far.
  WGPUFuture work_done() const;

  // A buffer, or OverLimits (out of memory) or Device naming `purpose` and `whole`, with the hints.
  Buffer create_buffer(const std::string& purpose, uint64_t size, WGPUBufferUsage usage, bool mapped,
                       const std::string& whole = {}, const std::vector<Hint>& hints = {});
  // Runs `body` in a validation scope; throws Device with the first error, after "[subject] ".
  void validated(const std::string& subject, const std::function<void()>& body);
  // The pipelines of the kernels, in their order; those not yet in the cache are built side by side.
  std::vector<std::shared_ptr<const Pipeline>> build_pipelines(const std::vector<PlanKernel>& kernels);
  void submit(Handle<WGPUCommandEncoder> encoder);
};

Handle<WGPUCommandEncoder> create_encoder(DeviceImpl& device);

}  // namespace gyrus
