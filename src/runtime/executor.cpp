// Loading a plan: checks, buffers, weights, pipelines, bind groups.

#include "runtime/executor.h"

#include <cstdio>

#include "core/error.h"
#include "plan/check.h"
#include "runtime/cpu_executor.h"
#include "runtime/executor_impl.h"

namespace gyrus {
namespace {

std::string in_mib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1u << 20));
  return text;
}

// What makes a plan need less, or a device have more.
std::vector<Hint> less_memory(const Plan& plan) {
  if (plan.precision == "f16") return {Hint::SmallerVolume, Hint::SmallerModel, Hint::OtherDevice};
  return {Hint::HalfPrecision, Hint::SmallerVolume, Hint::OtherDevice};
}

void check_features(const DeviceImpl& device, const Features& needs) {
  const auto need = [&](bool needed, bool has, const char* name) {
    if (needed && !has)
      fail(ErrorCode::OverLimits, device.adapter.name, "the plan uses ", name, ", which the device was opened without");
  };
  need(needs.shader_f16, device.features.shader_f16, "shader-f16");
  need(needs.subgroup_matrix, device.features.subgroup_matrix, "subgroup-matrix");
  need(needs.subgroups, device.features.subgroups, "subgroups");
  need(needs.timestamp_query, device.features.timestamp_query, "timestamp-query");
}

void check_memory(const DeviceImpl& device, const Plan& plan) {
  const auto memory = device.adapter.memory_bytes;
  if (memory && plan.peak_bytes() > *memory)
    fail(ErrorCode::OverLimits, less_memory(plan), device.adapter.name, "the plan needs ", in_mib(plan.peak_bytes()),
         " of GPU memory, the device has ", in_mib(*memory));
}

WGPUBufferUsage usage_of(BufferKind kind) {
  if (kind == BufferKind::Params) return WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst;
  if (kind == BufferKind::Arguments)
    return WGPUBufferUsage_Uniform | WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;
  return WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;
}

bool has_dispatch(const Plan& plan) {
  for (const Step& step : plan.steps)
    if (std::holds_alternative<Dispatch>(step)) return true;
  return false;
}

}  // namespace

void ExecutorImpl::allocate() {
  const std::string whole =
      cat("; the plan needs ", in_mib(plan->peak_bytes()), " in ", plan->buffers.size(), " buffers");
  for (const PlanBuffer& buffer : plan->buffers) {
    buffers.push_back(nullptr);
    if (buffer.kind == BufferKind::State) continue;
    owned.push_back(device->create_buffer(cat("buffer '", buffer.label, "'"), buffer.size, usage_of(buffer.kind),
                                          /*mapped=*/false, whole, less_memory(*plan)));
    buffers.back() = owned.back().get();
  }
}

void ExecutorImpl::fill() {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const PlanBuffer& buffer = plan->buffers[i];
    if (buffer.kind != BufferKind::Weights && buffer.kind != BufferKind::Params) continue;
    upload(*device, buffers[i], 0, buffer.size, plan->weights.data() + buffer.data_offset, buffer.size);
  }
}

void ExecutorImpl::attach() {
  for (const auto& [number, buffer] : memory.impl()->attach(plan)) buffers[number] = buffer;
  writes = state_writes(*plan);
}

void ExecutorImpl::bind() {
  groups.resize(plan->steps.size());
  device->validated("bind groups", [&] {
    std::vector<WGPUBindGroupEntry> entries;
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto* dispatch = std::get_if<Dispatch>(&plan->steps[i]);
      if (!dispatch) continue;
      entries.assign(dispatch->bindings.size(), WGPUBindGroupEntry{});
      for (size_t b = 0; b < entries.size(); ++b) {
        const BufferRange& range = dispatch->bindings[b];
        entries[b].binding = static_cast<uint32_t>(b);
        entries[b].buffer = buffers[range.buffer];
        entries[b].offset = range.offset;
        entries[b].size = range.size;
      }
      WGPUBindGroupDescriptor descriptor{};
      descriptor.label = to_view(dispatch->label);
      descriptor.layout = pipelines[dispatch->kernel]->layout.get();
      descriptor.entryCount = entries.size();
      descriptor.entries = entries.data();
      groups[i] = Handle<WGPUBindGroup>(wgpuDeviceCreateBindGroup(device->device.get(), &descriptor));
    }
  });
}

Executor::Executor(const Device& device, std::shared_ptr<const Plan> plan, const Memory& memory,
                   const ExecutorOptions& options)
    : impl_(std::make_unique<ExecutorImpl>(device, std::move(plan), memory)) {
  ExecutorImpl& e = *impl_;
  e.options = options;
  e.device->check("loading a plan");
  if (device.is_cpu()) fail(ErrorCode::Unsupported, "device", "the CPU runs networks, not plans for WebGPU");
  if (memory.impl()->device != e.device) fail(ErrorCode::InvalidInput, "memory", "is on another device than the plan");
  gyrus::check(*e.plan, e.device->limits);
  check_features(*e.device, e.plan->features);
  check_memory(*e.device, *e.plan);
  e.allocate();
  e.fill();
  e.pipelines = e.device->build_pipelines(e.plan->kernels);
  e.attach();
  e.bind();
  if (e.device->features.timestamp_query && has_dispatch(*e.plan))
    e.total_time = std::make_unique<Timestamps>(*e.device, 2);
  e.device->check("loading a plan");
}

Executor::Executor(const Device& device, Plan plan, const Memory& memory, const ExecutorOptions& options)
    : Executor(device, std::make_shared<const Plan>(std::move(plan)), memory, options) {}
Executor::Executor(const Device& device, std::shared_ptr<const Plan> plan, const ExecutorOptions& options)
    : Executor(device, std::move(plan), Memory(device), options) {}
Executor::Executor(const Device& device, Plan plan, const ExecutorOptions& options)
    : Executor(device, std::make_shared<const Plan>(std::move(plan)), options) {}
Executor::Executor(const Device& device, std::shared_ptr<cpu::Network> network, const Memory& memory)
    : cpu_(std::make_unique<CpuExecutor>(device, std::move(network), memory)) {}
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;
Executor::~Executor() = default;

RunResult Executor::run(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  return cpu_ ? cpu_->run(inputs, options) : impl_->run(inputs, options);
}

PendingRun Executor::start(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  return cpu_ ? PendingRun(cpu_->run(inputs, options)) : impl_->start(inputs, options);
}

const Plan& Executor::plan() const { return cpu_ ? cpu_->plan() : *impl_->plan; }
Memory& Executor::memory() { return cpu_ ? cpu_->memory() : impl_->memory; }

uint64_t Executor::allocated_bytes() const {
  if (cpu_) return cpu_->allocated_bytes();
  uint64_t bytes = 0;
  for (const Buffer& buffer : impl_->owned) bytes += buffer.size();
  return bytes;
}

}  // namespace gyrus
