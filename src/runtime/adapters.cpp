// Finding adapters. The C API hands out one adapter per request, so every kind of request is made and equal answers are
// dropped. The Vulkan loader reads its environment when an instance first looks for adapters; drivers that the usual
// environment hides are reached by an instance of their own, made while the environment names just that driver.

#include "runtime/adapters.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>
#endif

#include "core/error.h"
#include "core/limits.h"
#include "cpu/machine.h"
#include "cpu/strip_ops.h"
#include "runtime/webgpu_dates.h"

namespace gyrus {
namespace {

const char* backend_name(WGPUBackendType backend) {
  switch (backend) {
    case WGPUBackendType_Null: return "Null";
    case WGPUBackendType_WebGPU: return "WebGPU";
    case WGPUBackendType_D3D11: return "D3D11";
    case WGPUBackendType_D3D12: return "D3D12";
    case WGPUBackendType_Metal: return "Metal";
    case WGPUBackendType_Vulkan: return "Vulkan";
    case WGPUBackendType_OpenGL: return "OpenGL";
    case WGPUBackendType_OpenGLES: return "OpenGLES";
    default: return "unknown";
  }
}

AdapterType to_type(WGPUAdapterType type) {
  switch (type) {
    case WGPUAdapterType_DiscreteGPU: return AdapterType::Discrete;
    case WGPUAdapterType_IntegratedGPU: return AdapterType::Integrated;
    case WGPUAdapterType_CPU: return AdapterType::Software;
    default: return AdapterType::Other;
  }
}

bool is_hardware(const Adapter& adapter) { return adapter.info.type != AdapterType::Software; }

std::optional<uint64_t> device_memory(const WGPUAdapterPropertiesMemoryHeaps& heaps) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < heaps.heapCount; ++i)
    if (heaps.heapInfo[i].properties & WGPUHeapProperty_DeviceLocal) bytes = std::max(bytes, heaps.heapInfo[i].size);
  return bytes ? std::optional<uint64_t>(bytes) : std::nullopt;
}

// False for the Null backend, which accepts everything and computes nothing.
bool describe(WGPUAdapter adapter, AdapterInfo& info) {
  WGPUAdapterPropertiesMemoryHeaps heaps{};
  heaps.chain.sType = WGPUSType_AdapterPropertiesMemoryHeaps;
  const bool has_heaps = wgpuAdapterHasFeature(adapter, WGPUFeatureName_AdapterPropertiesMemoryHeaps);
  WGPUAdapterInfo found{};
  if (has_heaps) found.nextInChain = &heaps.chain;
  if (wgpuAdapterGetInfo(adapter, &found) != WGPUStatus_Success) return false;
  const bool computes = found.backendType != WGPUBackendType_Null;
  info.name = to_line(found.device);
  info.vendor = to_line(found.vendor);
  info.architecture = to_line(found.architecture);
  info.driver = to_line(found.description);
  info.backend = backend_name(found.backendType);
  info.type = to_type(found.adapterType);
  info.subgroup_min_size = found.subgroupMinSize;
  info.subgroup_max_size = found.subgroupMaxSize;
  if (has_heaps) info.memory_bytes = device_memory(heaps);
  wgpuAdapterInfoFreeMembers(found);
  if (has_heaps) wgpuAdapterPropertiesMemoryHeapsFreeMembers(heaps);

  WGPULimits limits{};
  if (wgpuAdapterGetLimits(adapter, &limits) != WGPUStatus_Success) return false;
  info.limits = to_limits(limits);
  info.features.shader_f16 = wgpuAdapterHasFeature(adapter, WGPUFeatureName_ShaderF16);
  info.features.subgroups = wgpuAdapterHasFeature(adapter, WGPUFeatureName_Subgroups);
  info.features.timestamp_query = wgpuAdapterHasFeature(adapter, WGPUFeatureName_TimestampQuery);
  return computes;
}

Handle<WGPUAdapter> request_adapter(WGPUInstance instance, WGPUPowerPreference power, bool fallback, bool matrices) {
  WGPURequestAdapterOptions options{};
  WGPUDawnTogglesDescriptor toggles{};
  if (matrices) allow_matrices(options, toggles);
  options.featureLevel = WGPUFeatureLevel_Core;
  options.powerPreference = power;
  options.forceFallbackAdapter = fallback;
  Handle<WGPUAdapter> result;
  WGPURequestAdapterCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.userdata1 = &result;
  callback.callback = [](WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView, void* out, void*) {
    Handle<WGPUAdapter> owned(adapter);
    if (status == WGPURequestAdapterStatus_Success) *static_cast<Handle<WGPUAdapter>*>(out) = std::move(owned);
  };
  wait(instance, wgpuInstanceRequestAdapter(instance, &options, callback));
  return result;
}

// What matrix units there are, which only an adapter tells that was asked for with them. Halves come with them.
void describe_matrices(Adapter& adapter) {
  const Handle<WGPUAdapter> with = adapter.for_a_device(true);
  if (!with || !wgpuAdapterHasFeature(with.get(), WGPUFeatureName_ShaderF16)) return;
  AdapterInfo& info = adapter.info;
  info.matrices = matrix_shapes(with.get());
  info.features.subgroup_matrix = !info.matrices.empty() && info.features.subgroups;
  if (!info.features.subgroup_matrix) info.matrices.clear();
}

bool same(const AdapterInfo& a, const AdapterInfo& b) {
  return a.name == b.name && a.vendor == b.vendor && a.driver == b.driver && a.backend == b.backend && a.type == b.type;
}

// Adds what a new instance finds to the registry.
void discover(AdapterRegistry& registry) {
  Handle<WGPUInstance> instance = create_instance();
  constexpr std::pair<WGPUPowerPreference, bool> kRequests[] = {{WGPUPowerPreference_HighPerformance, false},
                                                                {WGPUPowerPreference_LowPower, false},
                                                                {WGPUPowerPreference_Undefined, true}};
  bool kept = false;
  for (const auto& [power, fallback] : kRequests) {
    Adapter adapter;
    adapter.instance = instance.get();
    adapter.power = power;
    adapter.fallback = fallback;
    adapter.handle = adapter.for_a_device(false);
    if (!adapter.handle || !describe(adapter.handle.get(), adapter.info)) continue;
    describe_matrices(adapter);
    const auto& known = registry.adapters;
    if (std::any_of(known.begin(), known.end(), [&](const Adapter& k) { return same(k.info, adapter.info); })) continue;
    registry.adapters.push_back(std::move(adapter));
    kept = true;
  }
  if (kept) registry.instances.push_back(std::move(instance));
}

#if defined(__linux__)
bool env_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

// Sets an environment variable while in scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;
  ~ScopedEnv() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

bool can_load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

// A Vulkan loader beside the program serves machines that have a driver but no loader. Dawn then finds it by its name.
void load_vulkan_loader_beside_program() {
  if (can_load("libvulkan.so.1")) return;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) dlopen((program.parent_path() / "libvulkan.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL);
}

void discover_with_driver(AdapterRegistry& registry, const std::string& icd_file) {
  const ScopedEnv old_name("VK_ICD_FILENAMES", icd_file);
  const ScopedEnv new_name("VK_DRIVER_FILES", icd_file);
  discover(registry);
}

// The usual NVIDIA driver file names a library that needs a display; the EGL one does not.
void discover_nvidia_egl(AdapterRegistry& registry) {
  if (!can_load("libEGL_nvidia.so.0")) return;
  std::string path = (std::filesystem::temp_directory_path() / "gyrus_nvidia_egl_XXXXXX.json").string();
  const int file = mkstemps(path.data(), 5);
  if (file < 0) return;
  const std::string text =
      R"({"file_format_version":"1.0.0","ICD":{"library_path":"libEGL_nvidia.so.0","api_version":"1.4.303"}})";
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  if (written) discover_with_driver(registry, path);
  std::remove(path.c_str());
}

bool user_chose_drivers() { return env_set("VK_ICD_FILENAMES") || env_set("VK_DRIVER_FILES"); }

// Whether the system has any driver file where the loader usually looks.
bool has_driver_files() {
  for (const char* folder : {"/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"}) {
    std::error_code error;
    if (std::filesystem::directory_iterator(folder, error) != std::filesystem::directory_iterator()) return true;
  }
  return false;
}

void discover_all(AdapterRegistry& registry) {
  if (user_chose_drivers()) return discover(registry);
  const auto& known = registry.adapters;
  const bool egl = !env_set("GYRUS_NO_EGL_ICD");
  // Without any driver file the loader would only complain; the EGL driver may still be there.
  if (egl && !has_driver_files()) discover_nvidia_egl(registry);
  if (!known.empty()) return;
  discover(registry);
  if (egl && std::none_of(known.begin(), known.end(), is_hardware)) discover_nvidia_egl(registry);
  // With hardware present the loader's software driver is never handed out; it stays reachable this way.
  if (!known.empty() && std::all_of(known.begin(), known.end(), is_hardware))
    for (const char* file : {"/usr/share/vulkan/icd.d/lvp_icd.json", "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"})
      if (std::filesystem::exists(file)) return discover_with_driver(registry, file);
}

std::set<std::string> loaded_libraries() {
  std::set<std::string> names;
  const auto add = [](dl_phdr_info* info, size_t, void* out) {
    if (info->dlpi_name && *info->dlpi_name) static_cast<std::set<std::string>*>(out)->insert(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &names);
  return names;
}

// Drivers are not made to be unloaded: they leave memory and exit handlers behind, and a second load meets them.
void keep_loaded(const std::set<std::string>& before) {
  for (const std::string& name : loaded_libraries())
    if (!before.count(name)) dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void prepare_environment() {
  // Mesa prints a warning without it; the value is not used for anything else.
  if (!std::getenv("XDG_RUNTIME_DIR")) setenv("XDG_RUNTIME_DIR", "/tmp", 1);
  load_vulkan_loader_beside_program();
}
#else
void discover_all(AdapterRegistry& registry) { discover(registry); }
std::set<std::string> loaded_libraries() { return {}; }
void keep_loaded(const std::set<std::string>&) {}
void prepare_environment() {}
#endif

// What the system calls the processor.
std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && at != std::string::npos) return line.substr(at + 2);
  }
  return "CPU";
}

AdapterInfo cpu_info() {
  AdapterInfo info;
  const int threads = cpu::usable_threads();
  info.name = processor_name();
  info.driver = cat(threads, threads == 1 ? " core, " : " cores, ", cpu::instruction_set());
  info.backend = "CPU";
  info.architecture = cpu::instruction_set();
  info.type = AdapterType::Cpu;
  info.limits = default_limits();
  info.features.timestamp_query = true;
  if (const uint64_t bytes = cpu::usable_memory(); bytes != ~uint64_t{0}) info.memory_bytes = bytes;
  return info;
}

std::shared_ptr<AdapterRegistry> find_adapters() {
  auto registry = std::make_shared<AdapterRegistry>();
  prepare_environment();
  const auto before = loaded_libraries();
  discover_all(*registry);
  keep_loaded(before);
  auto& adapters = registry->adapters;
  adapters.emplace_back();
  adapters.back().info = cpu_info();
  std::stable_sort(adapters.begin(), adapters.end(),
                   [](const Adapter& a, const Adapter& b) { return a.info.type < b.info.type; });
  for (size_t i = 0; i < adapters.size(); ++i) adapters[i].info.index = static_cast<uint32_t>(i);
  return registry;
}

std::mutex registry_mutex;

// Never destroyed by the end of the program: drivers may have unloaded themselves by then.
std::shared_ptr<AdapterRegistry>& cached_registry() {
  static auto* const cache = new std::shared_ptr<AdapterRegistry>;
  return *cache;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

[[noreturn]] void no_such_adapter(const std::vector<AdapterInfo>& adapters, const std::string& selector) {
  std::string names;
  for (const AdapterInfo& a : adapters) names += cat(names.empty() ? "" : ", ", a.index, " ", a.name);
  fail(ErrorCode::Device, "device", "no adapter matches '", selector, "'; there are: ", names);
}

}  // namespace

const char* to_string(AdapterType type) {
  switch (type) {
    case AdapterType::Discrete: return "discrete";
    case AdapterType::Integrated: return "integrated";
    case AdapterType::Cpu: return "cpu";
    case AdapterType::Software: return "software";
    case AdapterType::Other: return "other";
  }
  return "other";
}

Handle<WGPUAdapter> Adapter::for_a_device(bool matrices) const {
  return request_adapter(instance, power, fallback, matrices);
}

AdapterRegistry::~AdapterRegistry() { adapters.clear(); }

Handle<WGPUInstance> create_instance() {
  WGPUInstanceDescriptor descriptor{};
  allow_timed_wait(descriptor);
  Handle<WGPUInstance> instance(wgpuCreateInstance(&descriptor));
  if (!instance) fail(ErrorCode::Device, "device", "WebGPU could not be initialised");
  return instance;
}

namespace {

// Calls visit(name, member of the API's struct, members…) for every limit that plans depend on.
template <class Gpu, class Visit, class... L>
void visit_gpu_limits(Visit&& visit, Gpu& gpu, L&... limits) {
  visit("maxBufferSize", gpu.maxBufferSize, limits.max_buffer_size...);
  visit("maxStorageBufferBindingSize", gpu.maxStorageBufferBindingSize, limits.max_storage_buffer_binding_size...);
  visit("maxUniformBufferBindingSize", gpu.maxUniformBufferBindingSize, limits.max_uniform_buffer_binding_size...);
  visit("maxStorageBuffersPerShaderStage", gpu.maxStorageBuffersPerShaderStage,
        limits.max_storage_buffers_per_shader_stage...);
  visit("minStorageBufferOffsetAlignment", gpu.minStorageBufferOffsetAlignment,
        limits.min_storage_buffer_offset_alignment...);
  visit("minUniformBufferOffsetAlignment", gpu.minUniformBufferOffsetAlignment,
        limits.min_uniform_buffer_offset_alignment...);
  visit("maxComputeWorkgroupsPerDimension", gpu.maxComputeWorkgroupsPerDimension,
        limits.max_compute_workgroups_per_dimension...);
  visit("maxComputeInvocationsPerWorkgroup", gpu.maxComputeInvocationsPerWorkgroup,
        limits.max_compute_invocations_per_workgroup...);
  visit("maxComputeWorkgroupSizeX", gpu.maxComputeWorkgroupSizeX, limits.max_compute_workgroup_size_x...);
  visit("maxComputeWorkgroupSizeY", gpu.maxComputeWorkgroupSizeY, limits.max_compute_workgroup_size_y...);
  visit("maxComputeWorkgroupSizeZ", gpu.maxComputeWorkgroupSizeZ, limits.max_compute_workgroup_size_z...);
  visit("maxComputeWorkgroupStorageSize", gpu.maxComputeWorkgroupStorageSize,
        limits.max_compute_workgroup_storage_size...);
}

}  // namespace

Limits to_limits(const WGPULimits& limits) {
  Limits l;
  visit_gpu_limits([](const char*, auto given, auto& limit) { limit = given; }, limits, l);
  return l;
}

void set_required(const Limits& needs, WGPULimits& limits) {
  const Limits usual = default_limits();
  visit_gpu_limits(
      [](const char* name, auto& asked, auto need, auto base) {
        if (asks_more(name, need, base)) asked = need;
      },
      limits, needs, usual);
}

void wait(WGPUInstance instance, WGPUFuture future) {
  WGPUFutureWaitInfo info{};
  info.future = future;
  const WGPUWaitStatus status = wgpuInstanceWaitAny(instance, 1, &info, UINT64_MAX);
  if (status != WGPUWaitStatus_Success) fail(ErrorCode::Device, "device", "waiting failed with status ", int(status));
}

std::shared_ptr<AdapterRegistry> adapter_registry() {
  const std::lock_guard lock(registry_mutex);
  auto& registry = cached_registry();
  if (!registry) registry = find_adapters();
  return registry;
}

void release_adapters() {
  const std::lock_guard lock(registry_mutex);
  cached_registry().reset();
}

std::vector<AdapterInfo> AdapterRegistry::infos() const {
  std::vector<AdapterInfo> list;
  for (const Adapter& adapter : adapters) list.push_back(adapter.info);
  return list;
}

std::vector<AdapterInfo> list_adapters() { return adapter_registry()->infos(); }

AdapterInfo choose_adapter(const std::string& selector) {
  const char* const usual = std::getenv("GYRUS_DEVICE");
  return choose_from(list_adapters(), selector.empty() && usual ? usual : selector);
}

AdapterInfo choose_from(const std::vector<AdapterInfo>& adapters, const std::string& selector) {
  if (adapters.empty())
    fail(ErrorCode::Device, "device",
         "nothing that computes was found; install a Vulkan driver (for software rendering on Debian: "
         "mesa-vulkan-drivers)");
  if (selector.empty()) return adapters.front();
  for (const AdapterInfo& adapter : adapters) {
    const bool is_cpu = adapter.type == AdapterType::Cpu, software = adapter.type == AdapterType::Software;
    if (selector == "cpu" ? is_cpu : selector == "gpu" ? !is_cpu && !software : selector == "webgpu" && !is_cpu)
      return adapter;
  }
  if (selector == "gpu" || selector == "webgpu")
    fail(ErrorCode::Device, "device",
         selector == "gpu" ? "there is no GPU; install its Vulkan driver, or compute on the CPU"
                           : "no GPU adapter found; install a Vulkan driver (for software rendering on Debian: "
                             "mesa-vulkan-drivers), or compute on the CPU");
  if (std::all_of(selector.begin(), selector.end(), [](unsigned char c) { return std::isdigit(c); })) {
    for (const AdapterInfo& adapter : adapters)
      if (std::to_string(adapter.index) == selector) return adapter;
    no_such_adapter(adapters, selector);
  }
  const std::string wanted = lower(selector);
  for (const AdapterInfo& adapter : adapters)
    if (lower(adapter.name).find(wanted) != std::string::npos ||
        lower(adapter.driver).find(wanted) != std::string::npos)
      return adapter;
  no_such_adapter(adapters, selector);
}

}  // namespace gyrus
