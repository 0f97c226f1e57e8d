#pragma once
#include <cstdint>
#include <vector>

#include "runtime/device_impl.h"
#include "runtime/staging.h"

namespace gyrus {

// A row of GPU timestamps, in as many query sets as it takes.
class Timestamps {
 public:
  Timestamps(DeviceImpl& device, uint32_t count);  // count is even

  // The pass writes query `begin` as it starts and `end` as it ends; kNone leaves one out.
  // Both are of the same pair of queries (2i, 2i+1).
  WGPUPassTimestampWrites writes(uint32_t begin, uint32_t end) const;
  // Copies the values to where read() takes them from.
  void resolve(WGPUCommandEncoder encoder) const;
  // What reads them into `values`, in nanoseconds, after the submission that resolved them.
  Readback readback(std::vector<uint64_t>& values) const;

  static constexpr uint32_t kNone = WGPU_QUERY_SET_INDEX_UNDEFINED;

 private:
  uint32_t count_;
  std::vector<Handle<WGPUQuerySet>> sets_;
  Buffer resolved_;
};

}  // namespace gyrus
