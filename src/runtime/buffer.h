#pragma once
#include <atomic>
#include <memory>

#include "runtime/handles.h"

namespace gyrus {

// A buffer, counted among the device's bytes as long as it lives.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Handle<WGPUBuffer> handle, std::shared_ptr<std::atomic<uint64_t>> count)
      : handle_(std::move(handle)), count_(std::move(count)) {
    *count_ += size();
  }
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Buffer() {
    if (handle_) *count_ -= size();
  }
  WGPUBuffer get() const { return handle_.get(); }
  uint64_t size() const { return handle_ ? wgpuBufferGetSize(handle_.get()) : 0; }  // as the device knows it

 private:
  Handle<WGPUBuffer> handle_;
  std::shared_ptr<std::atomic<uint64_t>> count_;
};

}  // namespace gyrus
