#pragma once
#include <memory>
#include <vector>

#include "gyrus/device.h"
#include "runtime/handles.h"

// Instances and adapters, shared by everything in the process that uses a device.

namespace gyrus {

struct Adapter {
  AdapterInfo info;
  Handle<WGPUAdapter> handle;
  WGPUInstance instance = nullptr;  // owned by the registry
  WGPUPowerPreference power = WGPUPowerPreference_Undefined;
  bool fallback = false;

  // The same adapter anew, with matrix units where they are wanted: a device takes its adapter with it, so the kept
  // one serves for questions only.
  Handle<WGPUAdapter> for_a_device(bool matrices) const;
};

// The instances of the process and the adapters they gave. One instance, or one more for each set of drivers that
// only a changed environment reaches.
struct AdapterRegistry {
  std::vector<Handle<WGPUInstance>> instances;
  std::vector<Adapter> adapters;  // best first; destroyed before the instances

  std::vector<AdapterInfo> infos() const;
  ~AdapterRegistry();
};

// The registry; made at first use and kept until release_adapters().
std::shared_ptr<AdapterRegistry> adapter_registry();

// As choose_adapter, among the given ones.
AdapterInfo choose_from(const std::vector<AdapterInfo>& adapters, const std::string& selector);

Handle<WGPUInstance> create_instance();
Limits to_limits(const WGPULimits& limits);
// Puts what `needs` asks for beyond what every device has; the rest stays as it is.
void set_required(const Limits& needs, WGPULimits& limits);

// Blocks until the future is completed, without spinning.
void wait(WGPUInstance instance, WGPUFuture future);

}  // namespace gyrus
