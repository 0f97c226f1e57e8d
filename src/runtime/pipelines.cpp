// Pipelines from kernels: shader modules are parsed one after another, pipelines compiled side by side by the driver's
// own threads, and both kept for every later plan on the device.

#include <deque>

#include "core/error.h"
#include "runtime/device_impl.h"

namespace gyrus {
namespace {

std::string key_of(const PlanKernel& kernel) {
  std::string key = kernel.entry + '\n';
  for (BindingKind kind : kernel.bindings) key += static_cast<char>('0' + static_cast<int>(kind));
  return key + '\n' + kernel.wgsl;
}

WGPUBufferBindingType to_binding_type(BindingKind kind) {
  switch (kind) {
    case BindingKind::ReadStorage: return WGPUBufferBindingType_ReadOnlyStorage;
    case BindingKind::ReadWriteStorage: return WGPUBufferBindingType_Storage;
    case BindingKind::Uniform: return WGPUBufferBindingType_Uniform;
  }
  return WGPUBufferBindingType_Undefined;
}

Handle<WGPUBindGroupLayout> create_layout(const DeviceImpl& device, const PlanKernel& kernel) {
  std::vector<WGPUBindGroupLayoutEntry> entries(kernel.bindings.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].binding = static_cast<uint32_t>(i);
    entries[i].visibility = WGPUShaderStage_Compute;
    entries[i].buffer.type = to_binding_type(kernel.bindings[i]);
  }
  WGPUBindGroupLayoutDescriptor descriptor{};
  descriptor.label = to_view(kernel.name);
  descriptor.entryCount = entries.size();
  descriptor.entries = entries.data();
  return Handle<WGPUBindGroupLayout>(wgpuDeviceCreateBindGroupLayout(device.device.get(), &descriptor));
}

// The first error that the compiler found, as "line N: message"; empty when there is none.
std::string compile_error(const DeviceImpl& device, WGPUShaderModule module) {
  std::string error;
  WGPUCompilationInfoCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.userdata1 = &error;
  callback.callback = [](WGPUCompilationInfoRequestStatus status, WGPUCompilationInfo const* info, void* out, void*) {
    if (status != WGPUCompilationInfoRequestStatus_Success || !info) return;
    auto& text = *static_cast<std::string*>(out);
    for (size_t i = 0; i < info->messageCount; ++i) {
      const WGPUCompilationMessage& message = info->messages[i];
      if (message.type != WGPUCompilationMessageType_Error || !text.empty()) continue;
      text = cat("line ", message.lineNum, ":", message.linePos, ": ", to_line(message.message));
    }
  };
  device.wait_for(wgpuShaderModuleGetCompilationInfo(module, callback));
  return error;
}

Handle<WGPUShaderModule> create_module(DeviceImpl& device, const PlanKernel& kernel) {
  WGPUShaderSourceWGSL source{};
  source.chain.sType = WGPUSType_ShaderSourceWGSL;
  source.code = to_view(kernel.wgsl);
  WGPUShaderModuleDescriptor descriptor{};
  descriptor.nextInChain = &source.chain;
  descriptor.label = to_view(kernel.name);
  Handle<WGPUShaderModule> module;
  std::string error;
  try {
    device.validated(kernel.name, [&] {
      module = Handle<WGPUShaderModule>(wgpuDeviceCreateShaderModule(device.device.get(), &descriptor));
      error = compile_error(device, module.get());
    });
  } catch (const Error&) {
    if (error.empty()) throw;  // the compiler's own message has the line
  }
  if (!error.empty()) fail(ErrorCode::Device, kernel.name, "the kernel does not compile: ", error);
  return module;
}

// A pipeline that is being built.
struct Build {
  size_t kernel = 0;  // index among the kernels asked for
  std::string key;
  Handle<WGPUShaderModule> module;
  std::shared_ptr<Pipeline> result = std::make_shared<Pipeline>();
  WGPUFuture future{};
  bool started = false;
  std::string error;
};

void on_pipeline(WGPUCreatePipelineAsyncStatus status, WGPUComputePipeline pipeline, WGPUStringView message,
                 void* userdata, void*) {
  auto& build = *static_cast<Build*>(userdata);
  build.result->pipeline = Handle<WGPUComputePipeline>(pipeline);
  if (status == WGPUCreatePipelineAsyncStatus_Success) return;
  build.error = to_line(message);
  if (build.error.empty()) build.error = "the driver gave no reason";
}

void start(DeviceImpl& device, const PlanKernel& kernel, Build& build) {
  build.module = create_module(device, kernel);
  device.validated(kernel.name, [&] {
    build.result->layout = create_layout(device, kernel);
    const WGPUBindGroupLayout layouts[] = {build.result->layout.get()};
    WGPUPipelineLayoutDescriptor layout{};
    layout.bindGroupLayoutCount = 1;
    layout.bindGroupLayouts = layouts;
    const Handle<WGPUPipelineLayout> pipeline_layout(wgpuDeviceCreatePipelineLayout(device.device.get(), &layout));
    WGPUComputePipelineDescriptor descriptor{};
    descriptor.label = to_view(kernel.name);
    descriptor.layout = pipeline_layout.get();
    descriptor.compute.module = build.module.get();
    descriptor.compute.entryPoint = to_view(kernel.entry);
    WGPUCreateComputePipelineAsyncCallbackInfo callback{};
    callback.mode = WGPUCallbackMode_WaitAnyOnly;
    callback.callback = on_pipeline;
    callback.userdata1 = &build;
    build.future = wgpuDeviceCreateComputePipelineAsync(device.device.get(), &descriptor, callback);
    build.started = true;
  });
}

}  // namespace

std::vector<std::shared_ptr<const Pipeline>> DeviceImpl::build_pipelines(const std::vector<PlanKernel>& kernels) {
  const std::lock_guard lock(pipelines_mutex);
  std::deque<Build> builds;  // callbacks point into it
  std::exception_ptr failure;
  std::unordered_map<std::string, bool> begun;
  for (size_t i = 0; i < kernels.size() && !failure; ++i) {
    std::string key = key_of(kernels[i]);
    if (pipelines.count(key) || begun[key]) continue;
    begun[key] = true;
    Build& build = builds.emplace_back();
    build.kernel = i;
    build.key = std::move(key);
    try {
      start(*this, kernels[i], build);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  // Every build that was started is waited for, whatever failed: its callback writes to `builds`.
  for (Build& build : builds)
    if (build.started) wait_for(build.future);
  if (failure) std::rethrow_exception(failure);
  for (Build& build : builds) {
    if (!build.error.empty()) check(cat("building ", kernels[build.kernel].name));
    if (!build.error.empty())
      fail(ErrorCode::Device, kernels[build.kernel].name, "the pipeline cannot be built: ", build.error);
    pipelines.emplace(build.key, build.result);
  }
  std::vector<std::shared_ptr<const Pipeline>> found;
  for (const PlanKernel& kernel : kernels) found.push_back(pipelines.at(key_of(kernel)));
  return found;
}

}  // namespace gyrus
