#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/target.h"

// Adapters and devices. A device may be used from several threads at once, each with its own Executor.

namespace gyrus {

// In the order of preference.
enum class AdapterType : uint8_t { Discrete, Integrated, Other, Cpu, Software };
const char* to_string(AdapterType type);

// What is known of an adapter before a device is opened on it.
struct AdapterInfo : Target {
  uint32_t index = 0;  // its place in list_adapters()
  std::string name;
  std::string vendor;
  std::string architecture;
  std::string driver;   // the driver's description of itself
  std::string backend;  // "Vulkan", "Metal", "D3D12" …
  AdapterType type = AdapterType::Other;
  std::optional<uint64_t> memory_bytes;  // of the device's own memory, in all; none where the driver does not tell
};

// Everything that computes, best first: discrete before integrated GPUs, then the CPU by kernels of its own, then
// software Vulkan. Dawn's Null backend is left out. The API names one adapter per driver and power preference, so of
// several equal GPUs only the first is seen. Where the Vulkan loader finds no hardware and NVIDIA's EGL driver is
// installed (a machine without a display), that one is tried too, unless GYRUS_NO_EGL_ICD=1 or the environment chooses
// drivers itself (VK_ICD_FILENAMES, VK_DRIVER_FILES).
std::vector<AdapterInfo> list_adapters();

// Forgets the adapters found so far, so that the next call looks at the drivers again. Open devices stay usable.
void release_adapters();

// The adapter that `selector` means: "" what GYRUS_DEVICE says, or else the best, "cpu" the CPU, "gpu" the best that is
// hardware, "webgpu" the best of WebGPU, with software Vulkan where there is no other, "N" the one of that index, else
// the first whose name or driver contains the text, in any case. Throws Device when there is none.
AdapterInfo choose_adapter(const std::string& selector);

struct DeviceOptions {
  std::string selector;  // as for choose_adapter, but "" is the best of WebGPU
  int threads = 0;       // of the CPU; 0: as many as the process may use
  Limits limits;         // what the plans need; only what exceeds the specification's defaults is asked for
  Features features;     // likewise
  // Where compiled pipelines are kept between processes; "" nowhere. By default gyrus/pipelines in the user's cache
  // folder, or nowhere where GYRUS_NO_CACHE=1.
  std::optional<std::string> pipeline_cache;
  std::optional<uint64_t> fail_allocation_at;  // for tests: the driver refuses the buffer of this number, from 0
};

struct DeviceImpl;

// An open device; copies share it.
class Device {
 public:
  const AdapterInfo& adapter() const;
  Limits limits() const;      // that the device enforces
  Features features() const;  // that were asked for
  Target target() const;      // what plans for it are made for: those two, and the rest as the adapter has it
  bool is_cpu() const;        // it runs graphs by kernels of its own; plans are for others
  bool lost() const;
  void check() const;             // throws Device when the device is lost or an error was reported since the last call
  uint64_t buffer_bytes() const;  // of all buffers that live on the device
  size_t compiled_kernels() const;      // that it keeps for all plans; each text is compiled once
  uint64_t most_staging_bytes() const;  // that buffers for uploads and readback took at one time
  void lose_for_test();                 // as if the driver had failed

  explicit Device(std::shared_ptr<DeviceImpl> impl);
  const std::shared_ptr<DeviceImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<DeviceImpl> impl_;
};

// Throws Device when there is no such adapter or it refuses, OverLimits when it has less than asked for.
Device open_device(const DeviceOptions& options = {});
// With all limits and features that the adapter offers but matrix units, which are an experiment and have to be asked
// for (DeviceOptions::features); `selector` as for DeviceOptions.
Device open_gpu(const std::string& selector = {});
// The same of whatever is best, as choose_adapter says: without a GPU the CPU, with so many threads.
Device open_best(const std::string& selector = {}, int threads = 0);

// WebGPU objects that this process holds, by type; all zero when every device and
// executor is gone and release_adapters() was called.
std::map<std::string, int64_t> live_objects();

}  // namespace gyrus
