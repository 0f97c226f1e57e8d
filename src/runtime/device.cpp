#include "gyrus/device.h"

#include <algorithm>

#include "core/error.h"
#include "core/limits.h"
#include "runtime/blob_cache.h"
#include "runtime/device_impl.h"
#include "runtime/webgpu_dates.h"

namespace gyrus {
namespace {

// The callbacks' own hold on the events, freed by the last of them: the device-lost callback always comes, once.
using EventsHold = std::shared_ptr<DeviceEvents>;

void on_lost(WGPUDevice const*, WGPUDeviceLostReason reason, WGPUStringView message, void* hold, void*) {
  const std::unique_ptr<EventsHold> events(static_cast<EventsHold*>(hold));
  const std::lock_guard lock((*events)->mutex);
  (*events)->lost = true;
  (*events)->lost_reason = to_line(message);
  if (reason == WGPUDeviceLostReason_Destroyed) (*events)->lost_reason += " (destroyed)";
}

void on_error(WGPUDevice const*, WGPUErrorType, WGPUStringView message, void* events, void*) {
  auto& e = *static_cast<DeviceEvents*>(events);
  const std::lock_guard lock(e.mutex);
  if (e.first_error.empty()) e.first_error = to_line(message);
}

struct DeviceRequest {
  Handle<WGPUDevice> device;
  std::string message;
};

void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void* out, void*) {
  auto& request = *static_cast<DeviceRequest*>(out);
  Handle<WGPUDevice> owned(device);
  if (status == WGPURequestDeviceStatus_Success) request.device = std::move(owned);
  request.message = to_line(message);
}

// Everything undefined, so that only what is set is asked for.
WGPULimits no_limits() {
  WGPULimits limits{};
  for (uint32_t WGPULimits::*member : {&WGPULimits::maxTextureDimension1D,
                                       &WGPULimits::maxTextureDimension2D,
                                       &WGPULimits::maxTextureDimension3D,
                                       &WGPULimits::maxTextureArrayLayers,
                                       &WGPULimits::maxBindGroups,
                                       &WGPULimits::maxBindGroupsPlusVertexBuffers,
                                       &WGPULimits::maxBindingsPerBindGroup,
                                       &WGPULimits::maxDynamicUniformBuffersPerPipelineLayout,
                                       &WGPULimits::maxDynamicStorageBuffersPerPipelineLayout,
                                       &WGPULimits::maxSampledTexturesPerShaderStage,
                                       &WGPULimits::maxSamplersPerShaderStage,
                                       &WGPULimits::maxStorageBuffersPerShaderStage,
                                       &WGPULimits::maxStorageTexturesPerShaderStage,
                                       &WGPULimits::maxUniformBuffersPerShaderStage,
                                       &WGPULimits::minUniformBufferOffsetAlignment,
                                       &WGPULimits::minStorageBufferOffsetAlignment,
                                       &WGPULimits::maxVertexBuffers,
                                       &WGPULimits::maxVertexAttributes,
                                       &WGPULimits::maxVertexBufferArrayStride,
                                       &WGPULimits::maxInterStageShaderVariables,
                                       &WGPULimits::maxColorAttachments,
                                       &WGPULimits::maxColorAttachmentBytesPerSample,
                                       &WGPULimits::maxComputeWorkgroupStorageSize,
                                       &WGPULimits::maxComputeInvocationsPerWorkgroup,
                                       &WGPULimits::maxComputeWorkgroupSizeX,
                                       &WGPULimits::maxComputeWorkgroupSizeY,
                                       &WGPULimits::maxComputeWorkgroupSizeZ,
                                       &WGPULimits::maxComputeWorkgroupsPerDimension,
                                       &WGPULimits::maxImmediateSize})
    limits.*member = WGPU_LIMIT_U32_UNDEFINED;
  unset_other_limits(limits);
  limits.maxUniformBufferBindingSize = WGPU_LIMIT_U64_UNDEFINED;
  limits.maxStorageBufferBindingSize = WGPU_LIMIT_U64_UNDEFINED;
  limits.maxBufferSize = WGPU_LIMIT_U64_UNDEFINED;
  return limits;
}

std::vector<WGPUFeatureName> required_features(const Adapter& adapter, const Features& wanted) {
  std::vector<WGPUFeatureName> features;
  const auto want = [&](bool needed, bool offered, WGPUFeatureName feature, const char* name) {
    if (!needed) return;
    if (!offered)
      fail(ErrorCode::OverLimits, adapter.info.name, "has no ", name, ", which the plan uses; plan for this device");
    features.push_back(feature);
  };
  const bool matrices = adapter.info.features.subgroup_matrix;
  want(wanted.shader_f16, adapter.info.features.shader_f16 || (matrices && wanted.subgroup_matrix),
       WGPUFeatureName_ShaderF16, "shader-f16");
  want(wanted.subgroup_matrix, matrices, kSubgroupMatrixFeature, "subgroup-matrix");
  want(wanted.subgroups, adapter.info.features.subgroups, WGPUFeatureName_Subgroups, "subgroups");
  want(wanted.timestamp_query, adapter.info.features.timestamp_query, WGPUFeatureName_TimestampQuery,
       "timestamp-query");
  // No kernel sees this one; it lets several threads use the device.
  if (wgpuAdapterHasFeature(adapter.handle.get(), WGPUFeatureName_ImplicitDeviceSynchronization))
    features.push_back(WGPUFeatureName_ImplicitDeviceSynchronization);
  return features;
}

Handle<WGPUDevice> request_device(const Adapter& adapter, const DeviceOptions& options, const EventsHold& events) {
  WGPULimits limits = no_limits();
  set_required(options.limits, limits);
  Features wanted = options.features;
  if (wanted.subgroup_matrix) wanted.shader_f16 = wanted.subgroups = true;  // they work on halves
  const std::vector<WGPUFeatureName> features = required_features(adapter, wanted);
  // Rounding timestamps to 0.1 ms hides most kernels; it protects browsers, not programs.
  const char* const quantization = "timestamp_quantization";
  WGPUDawnTogglesDescriptor toggles{};
  toggles.chain.sType = WGPUSType_DawnTogglesDescriptor;
  toggles.disabledToggleCount = 1;
  toggles.disabledToggles = &quantization;
  WGPUDawnCacheDeviceDescriptor cache{};
  cache.chain.sType = WGPUSType_DawnCacheDeviceDescriptor;
  cache.isolationKey = to_view("");
  const std::string folder = options.pipeline_cache ? *options.pipeline_cache : cache_folder("pipelines");
  if (!folder.empty()) {
    use_cache(cache, blob_cache(folder));
    toggles.chain.next = &cache.chain;
  }

  WGPUDeviceDescriptor descriptor{};
  descriptor.nextInChain = &toggles.chain;
  descriptor.label = to_view("gyrus");
  descriptor.requiredFeatureCount = features.size();
  descriptor.requiredFeatures = features.data();
  descriptor.requiredLimits = &limits;
  descriptor.defaultQueue.label = to_view("gyrus queue");
  descriptor.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  descriptor.deviceLostCallbackInfo.callback = on_lost;
  descriptor.deviceLostCallbackInfo.userdata1 = new EventsHold(events);
  descriptor.uncapturedErrorCallbackInfo.callback = on_error;
  descriptor.uncapturedErrorCallbackInfo.userdata1 = events.get();

  DeviceRequest request;
  WGPURequestDeviceCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_device;
  callback.userdata1 = &request;
  const Handle<WGPUAdapter> fresh = adapter.for_a_device(options.features.subgroup_matrix);
  if (!fresh) fail(ErrorCode::Device, adapter.info.name, "the adapter is gone; was its driver removed?");
  wait(adapter.instance, wgpuAdapterRequestDevice(fresh.get(), &descriptor, callback));
  if (!request.device) fail(ErrorCode::Device, adapter.info.name, "the device could not be opened: ", request.message);
  return std::move(request.device);
}

void check_within(const AdapterInfo& adapter, const Limits& needs) {
  visit_limits_of(
      [&](const char* name, auto need, auto have) {
        if (asks_more(name, need, have))
          fail(ErrorCode::OverLimits, adapter.name, name, " is ", have, ", the plan needs ", need,
               "; plan for this device");
      },
      needs, adapter.limits);
}

struct ScopeResult {
  WGPUErrorType type = WGPUErrorType_NoError;
  std::string message;
};

ScopeResult pop_scope(const DeviceImpl& device) {
  ScopeResult result;
  WGPUPopErrorScopeCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.userdata1 = &result;
  callback.callback = [](WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void* out, void*) {
    auto& r = *static_cast<ScopeResult*>(out);
    r.type = status == WGPUPopErrorScopeStatus_Success ? type : WGPUErrorType_Unknown;
    r.message = to_line(message);
  };
  device.wait_for(wgpuDevicePopErrorScope(device.device.get(), callback));
  return result;
}

template <class T>
void count_live(std::map<std::string, int64_t>& counts) {
  counts[HandleTraits<T>::kName] = HandleTraits<T>::live.load();
}

}  // namespace

DeviceImpl::~DeviceImpl() {
  staging.clear();
  pipelines.clear();
  queue.reset();
  device.reset();
}

bool DeviceImpl::lost() const {
  const std::lock_guard lock(events->mutex);
  return events->lost;
}

void DeviceImpl::check(const std::string& doing) const {
  const std::lock_guard lock(events->mutex);
  if (events->lost) {
    // A new device starts from the drivers as they are now.
    if (!std::exchange(events->adapters_released, true)) release_adapters();
    fail(ErrorCode::Device, adapter.name, "the device was lost while ", doing, ": ",
         events->lost_reason.empty() ? "the driver gave no reason" : events->lost_reason,
         "; open the device again, with less work or memory if it happens twice");
  }
  if (!events->first_error.empty()) {
    const std::string message = std::exchange(events->first_error, {});
    fail(ErrorCode::Device, adapter.name, "error while ", doing, ": ", message);
  }
}

WGPUFuture DeviceImpl::work_done() const {
  WGPUQueueWorkDoneCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_work_done;
  return wgpuQueueOnSubmittedWorkDone(queue.get(), callback);
}

Buffer DeviceImpl::create_buffer(const std::string& purpose, uint64_t size, WGPUBufferUsage usage, bool mapped,
                                 const std::string& whole, const std::vector<Hint>& hints) {
  const std::lock_guard lock(scope_mutex);
  WGPUDawnFakeBufferOOMForTesting refuse{};
  refuse.chain.sType = WGPUSType_DawnFakeBufferOOMForTesting;
  refuse.fakeOOMAtDevice = true;
  WGPUBufferDescriptor descriptor{};
  if (fail_allocation_at && *fail_allocation_at == buffers_created) descriptor.nextInChain = &refuse.chain;
  ++buffers_created;
  descriptor.label = to_view(purpose);
  descriptor.usage = usage;
  descriptor.size = size;
  descriptor.mappedAtCreation = mapped;
  wgpuDevicePushErrorScope(device.get(), WGPUErrorFilter_Validation);
  wgpuDevicePushErrorScope(device.get(), WGPUErrorFilter_OutOfMemory);
  Handle<WGPUBuffer> buffer(wgpuDeviceCreateBuffer(device.get(), &descriptor));
  const ScopeResult memory = pop_scope(*this);
  const ScopeResult validation = pop_scope(*this);
  check(cat("allocating ", purpose));
  if (memory.type != WGPUErrorType_NoError || (!buffer && validation.type == WGPUErrorType_NoError))
    fail(ErrorCode::OverLimits, hints, adapter.name, "the driver refused ", size, " bytes for ", purpose, whole);
  if (validation.type != WGPUErrorType_NoError)
    fail(ErrorCode::Device, adapter.name, size, " bytes for ", purpose, ": ", validation.message);
  return Buffer(std::move(buffer), buffer_bytes);
}

void DeviceImpl::validated(const std::string& subject, const std::function<void()>& body) {
  const std::lock_guard lock(scope_mutex);
  wgpuDevicePushErrorScope(device.get(), WGPUErrorFilter_Validation);
  body();
  const ScopeResult result = pop_scope(*this);
  if (result.type != WGPUErrorType_NoError) check(subject);
  if (result.type != WGPUErrorType_NoError) fail(ErrorCode::Device, subject, result.message);
}

void DeviceImpl::submit(Handle<WGPUCommandEncoder> encoder) {
  const Handle<WGPUCommandBuffer> commands(wgpuCommandEncoderFinish(encoder.get(), nullptr));
  const WGPUCommandBuffer list[] = {commands.get()};
  wgpuQueueSubmit(queue.get(), 1, list);
}

Handle<WGPUCommandEncoder> create_encoder(DeviceImpl& device) {
  return Handle<WGPUCommandEncoder>(wgpuDeviceCreateCommandEncoder(device.device.get(), nullptr));
}

Device::Device(std::shared_ptr<DeviceImpl> impl) : impl_(std::move(impl)) {}
const AdapterInfo& Device::adapter() const { return impl_->adapter; }
Limits Device::limits() const { return impl_->limits; }
Features Device::features() const { return impl_->features; }

Target Device::target() const {
  Target target = impl_->adapter;
  target.limits = impl_->limits;
  target.features = impl_->features;
  if (!target.features.subgroup_matrix) target.matrices.clear();
  return target;
}

bool Device::is_cpu() const { return impl_->pool != nullptr; }
bool Device::lost() const { return impl_->lost(); }
void Device::check() const { impl_->check("idle"); }

size_t Device::compiled_kernels() const {
  const std::lock_guard lock(impl_->pipelines_mutex);
  return impl_->pipelines.size();
}

uint64_t Device::most_staging_bytes() const { return impl_->staging.most_bytes(); }
uint64_t Device::buffer_bytes() const { return *impl_->buffer_bytes; }

void Device::lose_for_test() {
  if (is_cpu()) fail(ErrorCode::Unsupported, "device", "the CPU cannot be lost");
  wgpuDeviceForceLoss(impl_->device.get(), WGPUDeviceLostReason_Unknown, to_view("lost for a test"));
}

namespace {

Device open_cpu(const AdapterInfo& adapter, const DeviceOptions& options) {
  auto impl = std::make_shared<DeviceImpl>(adapter.type);
  impl->adapter = adapter;
  impl->limits = adapter.limits;
  impl->features = adapter.features;
  impl->pool = std::make_shared<cpu::ThreadPool>(options.threads);
  return Device(std::move(impl));
}

}  // namespace

Device open_device(const DeviceOptions& options) {
  const auto registry = adapter_registry();
  const AdapterInfo chosen = choose_from(registry->infos(), options.selector.empty() ? "webgpu" : options.selector);
  if (chosen.type == AdapterType::Cpu) return open_cpu(chosen, options);
  const Adapter& adapter = registry->adapters.at(chosen.index);
  check_within(adapter.info, options.limits);
  auto impl = std::make_shared<DeviceImpl>(adapter.info.type);
  impl->registry = registry;
  impl->instance = adapter.instance;
  impl->adapter = adapter.info;
  impl->features = options.features;
  if (options.features.subgroup_matrix) impl->features.shader_f16 = impl->features.subgroups = true;
  impl->fail_allocation_at = options.fail_allocation_at;
  impl->device = request_device(adapter, options, impl->events);
  impl->queue = Handle<WGPUQueue>(wgpuDeviceGetQueue(impl->device.get()));
  WGPULimits granted{};
  if (wgpuDeviceGetLimits(impl->device.get(), &granted) != WGPUStatus_Success)
    fail(ErrorCode::Device, adapter.info.name, "the device does not tell its limits");
  impl->limits = to_limits(granted);
  return Device(std::move(impl));
}

Device open_gpu(const std::string& selector) { return open_best(selector.empty() ? "webgpu" : selector); }

Device open_best(const std::string& selector, int threads) {
  const AdapterInfo adapter = choose_adapter(selector);
  DeviceOptions options;
  options.selector = std::to_string(adapter.index);
  options.threads = threads;
  options.limits = adapter.limits;
  options.features = adapter.features;
  options.features.subgroup_matrix = false;
  return open_device(options);
}

std::map<std::string, int64_t> live_objects() {
  std::map<std::string, int64_t> counts;
  count_live<WGPUInstance>(counts);
  count_live<WGPUAdapter>(counts);
  count_live<WGPUDevice>(counts);
  count_live<WGPUQueue>(counts);
  count_live<WGPUBuffer>(counts);
  count_live<WGPUBindGroup>(counts);
  count_live<WGPUBindGroupLayout>(counts);
  count_live<WGPUPipelineLayout>(counts);
  count_live<WGPUShaderModule>(counts);
  count_live<WGPUComputePipeline>(counts);
  count_live<WGPUCommandEncoder>(counts);
  count_live<WGPUCommandBuffer>(counts);
  count_live<WGPUComputePassEncoder>(counts);
  count_live<WGPUQuerySet>(counts);
  return counts;
}

}  // namespace gyrus
