#include "runtime/timestamps.h"

#include <algorithm>

namespace gyrus {
namespace {
constexpr uint32_t kSetSize = 4096;  // the most queries that a set may have
}

Timestamps::Timestamps(DeviceImpl& device, uint32_t count) : count_(count) {
  device.validated("timestamps", [&] {
    for (uint32_t at = 0; at < count; at += kSetSize) {
      WGPUQuerySetDescriptor descriptor{};
      descriptor.type = WGPUQueryType_Timestamp;
      descriptor.count = std::min(kSetSize, count - at);
      sets_.emplace_back(wgpuDeviceCreateQuerySet(device.device.get(), &descriptor));
    }
  });
  resolved_ = device.create_buffer("timestamps", uint64_t{8} * count,
                                   WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc, false);
}

WGPUPassTimestampWrites Timestamps::writes(uint32_t begin, uint32_t end) const {
  const uint32_t any = begin != kNone ? begin : end;
  WGPUPassTimestampWrites writes{};
  writes.querySet = sets_[any / kSetSize].get();
  writes.beginningOfPassWriteIndex = begin == kNone ? kNone : begin % kSetSize;
  writes.endOfPassWriteIndex = end == kNone ? kNone : end % kSetSize;
  return writes;
}

void Timestamps::resolve(WGPUCommandEncoder encoder) const {
  for (uint32_t at = 0; at < count_; at += kSetSize)
    wgpuCommandEncoderResolveQuerySet(encoder, sets_[at / kSetSize].get(), 0, std::min(kSetSize, count_ - at),
                                      resolved_.get(), uint64_t{8} * at);
}

Readback Timestamps::readback(std::vector<uint64_t>& values) const {
  values.resize(count_);
  const uint64_t bytes = uint64_t{8} * count_;
  return {resolved_.get(), 0, bytes, reinterpret_cast<std::byte*>(values.data()), bytes};
}

}  // namespace gyrus
