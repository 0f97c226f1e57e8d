#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/buffer.h"

// Transfers between host memory and device buffers, in chunks through a few reused staging buffers.

namespace gyrus {

struct DeviceImpl;

constexpr uint64_t kStagingChunk = 16u << 20;  // bytes; two are in use by one transfer

// A host-visible buffer.
struct StagingBuffer {
  Buffer buffer;
  uint64_t size = 0;    // bytes
  bool mapped = false;  // true after creation for uploads
};

// Staging buffers that wait for their next use. At most two of each direction are kept.
class StagingPool {
 public:
  StagingBuffer take(DeviceImpl& device, bool upload, uint64_t size);
  void give_back(bool upload, StagingBuffer&& staging);
  uint64_t most_bytes() const;  // held at one time, waiting or in use
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<StagingBuffer> free_[2];  // [upload]
  uint64_t bytes_ = 0;                  // waiting or in use
  uint64_t most_bytes_ = 0;
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

constexpr uint64_t kRidingBytes = 1u << 20;  // that a submission takes back beside its own work

// Ranges of at most kRidingBytes together, copied by a submission that is made anyway.
class RidingReadback {
 public:
  RidingReadback(DeviceImpl& device, std::vector<Readback> ranges);
  ~RidingReadback();
  void encode(WGPUCommandEncoder encoder);  // the copies, at the end of the submission
  void land();                              // waits for them and fills the ranges

 private:
  struct Load;
  DeviceImpl& device_;
  std::vector<Readback> ranges_;
  std::unique_ptr<Load> load_;  // none where there is nothing to read
};

}  // namespace gyrus
