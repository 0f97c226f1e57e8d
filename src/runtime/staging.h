#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/handles.h"

// Transfers between host memory and device buffers, in chunks through a few reused staging buffers.

namespace gyrus {

struct DeviceImpl;

constexpr uint64_t kStagingChunk = 16u << 20;  // bytes; two are in use by one transfer

// A host-visible buffer.
struct StagingBuffer {
  Handle<WGPUBuffer> buffer;
  uint64_t size = 0;    // bytes
  bool mapped = false;  // true after creation for uploads
};

// Staging buffers that wait for their next use. At most two of each direction are kept.
class StagingPool {
 public:
  StagingBuffer take(DeviceImpl& device, bool upload, uint64_t size);
  void give_back(bool upload, StagingBuffer&& staging);
  uint64_t bytes() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<StagingBuffer> free_[2];  // [upload]
};

// Writes `size` bytes to the buffer, a multiple of 4 of which only the first `given` are taken from `data`; the rest
// become zero. Offsets are multiples of 4.
void upload(DeviceImpl& device, WGPUBuffer buffer, uint64_t offset, uint64_t size, const std::byte* data,
            uint64_t given);

// One range to read back into host memory: `size` bytes, of which the first `wanted` go to `data`.
struct Readback {
  WGPUBuffer buffer = nullptr;
  uint64_t offset = 0;
  uint64_t size = 0;
  std::byte* data = nullptr;
  uint64_t wanted = 0;
};

// Reads the ranges after everything submitted so far.
void read_back(DeviceImpl& device, const std::vector<Readback>& ranges);

}  // namespace gyrus
