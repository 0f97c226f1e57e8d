#pragma once
#include <webgpu/webgpu.h>

#include <iterator>
#include <vector>

#include "gyrus/target.h"
#include "runtime/blob_cache.h"

// Everything in which the headers that gyrus compiles against differ: its own subset, of mid 2025, and those that come
// with a system Dawn, which are later. The code elsewhere asks for no date.

namespace gyrus {

#ifdef WGPU_INSTANCE_LIMITS_INIT  // later than mid 2025

inline void allow_timed_wait(WGPUInstanceDescriptor& descriptor) {
  static const WGPUInstanceFeatureName timed_wait = WGPUInstanceFeatureName_TimedWaitAny;
  descriptor.requiredFeatureCount = 1;
  descriptor.requiredFeatures = &timed_wait;
}

// Limits that only one of the headers has in this struct.
inline void unset_other_limits(WGPULimits&) {}

// Matrix units are behind toggles, as long as WebGPU only tries them out.
inline void allow_matrices(WGPURequestAdapterOptions& options, WGPUDawnTogglesDescriptor& toggles) {
  static const char* const kToggles[] = {"allow_unsafe_apis", "vulkan_enable_f16_on_nvidia"};
  toggles.chain.sType = WGPUSType_DawnTogglesDescriptor;
  toggles.enabledToggleCount = std::size(kToggles);
  toggles.enabledToggles = kToggles;
  options.nextInChain = &toggles.chain;
}

inline constexpr WGPUFeatureName kSubgroupMatrixFeature = WGPUFeatureName_ChromiumExperimentalSubgroupMatrix;

// The shapes for halves that the adapter multiplies; none where it lacks the feature.
inline std::vector<MatrixShape> matrix_shapes(WGPUAdapter adapter) {
  std::vector<MatrixShape> shapes;
  if (!wgpuAdapterHasFeature(adapter, kSubgroupMatrixFeature)) return shapes;
  WGPUAdapterPropertiesSubgroupMatrixConfigs configs{};
  configs.chain.sType = WGPUSType_AdapterPropertiesSubgroupMatrixConfigs;
  WGPUAdapterInfo info{};
  info.nextInChain = &configs.chain;
  if (wgpuAdapterGetInfo(adapter, &info) != WGPUStatus_Success) return shapes;
  for (size_t i = 0; i < configs.configCount; ++i) {
    const WGPUSubgroupMatrixConfig& c = configs.configs[i];
    const bool halves = c.resultComponentType == WGPUSubgroupMatrixComponentType_F16;
    if (c.componentType != WGPUSubgroupMatrixComponentType_F16) continue;
    shapes.push_back({DType::F16, halves ? DType::F16 : DType::F32, c.M, c.N, c.K});
  }
  wgpuAdapterPropertiesSubgroupMatrixConfigsFreeMembers(configs);
  wgpuAdapterInfoFreeMembers(info);
  return shapes;
}

inline void on_work_done(WGPUQueueWorkDoneStatus, WGPUStringView, void*, void*) {}

// Dawn asks for the size of a blob first, then for the blob.
inline void use_cache(WGPUDawnCacheDeviceDescriptor& descriptor, BlobCache& cache) {
  descriptor.dawnLoadCacheDataCallbackInfo.userdata1 = descriptor.dawnStoreCacheDataCallbackInfo.userdata1 = &cache;
  descriptor.dawnLoadCacheDataCallbackInfo.callback = [](size_t key_size, uint8_t const* key, size_t size,
                                                         uint8_t* value, void* c, void*) {
    return static_cast<BlobCache*>(c)->load({reinterpret_cast<const char*>(key), key_size}, value, size);
  };
  descriptor.dawnStoreCacheDataCallbackInfo.callback = [](size_t key_size, uint8_t const* key, size_t size,
                                                          uint8_t const* value, void* c, void*) {
    static_cast<BlobCache*>(c)->store({reinterpret_cast<const char*>(key), key_size}, value, size);
  };
}

#else

inline void allow_timed_wait(WGPUInstanceDescriptor& descriptor) {
  descriptor.capabilities.timedWaitAnyEnable = true;
  descriptor.capabilities.timedWaitAnyMaxCount = 64;
}

// This Dawn has no matrix units.
inline void allow_matrices(WGPURequestAdapterOptions&, WGPUDawnTogglesDescriptor&) {}
inline constexpr WGPUFeatureName kSubgroupMatrixFeature = WGPUFeatureName_Force32;
inline std::vector<MatrixShape> matrix_shapes(WGPUAdapter) { return {}; }

inline void unset_other_limits(WGPULimits& limits) {
  limits.maxStorageBuffersInVertexStage = limits.maxStorageTexturesInVertexStage = WGPU_LIMIT_U32_UNDEFINED;
  limits.maxStorageBuffersInFragmentStage = limits.maxStorageTexturesInFragmentStage = WGPU_LIMIT_U32_UNDEFINED;
}

inline void on_work_done(WGPUQueueWorkDoneStatus, void*, void*) {}

inline void use_cache(WGPUDawnCacheDeviceDescriptor& descriptor, BlobCache& cache) {
  descriptor.functionUserdata = &cache;
  descriptor.loadDataFunction = [](void const* key, size_t key_size, void* value, size_t size, void* c) {
    return static_cast<BlobCache*>(c)->load({static_cast<const char*>(key), key_size}, value, size);
  };
  descriptor.storeDataFunction = [](void const* key, size_t key_size, void const* value, size_t size, void* c) {
    static_cast<BlobCache*>(c)->store({static_cast<const char*>(key), key_size}, value, size);
  };
}

#endif

}  // namespace gyrus
