#include "runtime/staging.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "core/error.h"
#include "core/tensor.h"
#include "runtime/device_impl.h"

namespace gyrus {
namespace {

constexpr size_t kKept = 2;                       // staging buffers of each direction
constexpr uint64_t kDirectWrite = 256u << 10;     // bytes up to which the queue's own staging serves
constexpr uint64_t kSmallestStaging = 64u << 10;  // bytes

// Returns a staging buffer to its pool when the transfer ends, however it ends.
class Lease {
 public:
  Lease(DeviceImpl& device, bool upload, uint64_t size)
      : device_(device), upload_(upload), staging_(device.staging.take(device, upload, size)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { device_.staging.give_back(upload_, std::move(staging_)); }

  WGPUBuffer buffer() const { return staging_.buffer.get(); }
  uint64_t size() const { return staging_.size; }

  // Blocks until the device has done with the buffer and the host may touch it.
  void map() {
    if (staging_.mapped) return;
    struct Result {
      bool ok = false;
      std::string message;
    } result;
    WGPUBufferMapCallbackInfo callback{};
    callback.mode = WGPUCallbackMode_WaitAnyOnly;
    callback.userdata1 = &result;
    callback.callback = [](WGPUMapAsyncStatus status, WGPUStringView message, void* out, void*) {
      auto& r = *static_cast<Result*>(out);
      r.ok = status == WGPUMapAsyncStatus_Success;
      r.message = to_line(message);
    };
    const WGPUMapMode mode = upload_ ? WGPUMapMode_Write : WGPUMapMode_Read;
    device_.wait_for(wgpuBufferMapAsync(buffer(), mode, 0, staging_.size, callback));
    if (!result.ok) not_mapped(result.message);
    staging_.mapped = true;
  }
  [[noreturn]] void not_mapped(const std::string& message = {}) const {
    const char* doing = upload_ ? "uploading" : "reading back";
    device_.check(doing);
    fail(ErrorCode::Device, device_.adapter.name, "a staging buffer could not be mapped while ", doing, ": ", message);
  }
  void unmap() {
    wgpuBufferUnmap(buffer());
    staging_.mapped = false;
  }

 private:
  DeviceImpl& device_;
  bool upload_;
  StagingBuffer staging_;
};

// A part of a range that fits a staging buffer, and where it lies in it.
struct Part {
  const Readback* range;
  uint64_t at;          // bytes into the range
  uint64_t size;        // bytes
  uint64_t staging_at;  // bytes into the staging buffer
};

// A staging buffer full of parts, on its way.
struct Flight {
  std::unique_ptr<Lease> lease;
  std::vector<Part> parts;
};

void land(Flight& flight) {
  flight.lease->map();
  const auto* source =
      static_cast<const std::byte*>(wgpuBufferGetConstMappedRange(flight.lease->buffer(), 0, flight.lease->size()));
  if (!source) flight.lease->not_mapped();
  for (const Part& part : flight.parts) {
    if (part.at >= part.range->wanted) continue;
    const uint64_t bytes = std::min(part.size, part.range->wanted - part.at);
    std::memcpy(part.range->data + part.at, source + part.staging_at, bytes);
  }
  flight.lease->unmap();
}

void encode(WGPUCommandEncoder encoder, const Flight& flight) {
  for (const Part& part : flight.parts)
    wgpuCommandEncoderCopyBufferToBuffer(encoder, part.range->buffer, part.range->offset + part.at,
                                         flight.lease->buffer(), part.staging_at, part.size);
}

// Cuts the ranges into loads of at most `capacity` bytes.
std::vector<std::vector<Part>> make_loads(const std::vector<Readback>& ranges, uint64_t capacity) {
  std::vector<std::vector<Part>> loads;
  uint64_t used = capacity;
  for (const Readback& range : ranges) {
    for (uint64_t at = 0; at < range.size;) {
      if (used == capacity) {
        loads.emplace_back();
        used = 0;
      }
      const uint64_t size = std::min(range.size - at, capacity - used);
      loads.back().push_back({&range, at, size, used});
      at += size;
      used += size;
    }
  }
  return loads;
}

uint64_t staging_size(uint64_t bytes) {
  uint64_t size = kSmallestStaging;
  while (size < bytes && size < kStagingChunk) size *= 2;
  return size;
}

}  // namespace

StagingBuffer StagingPool::take(DeviceImpl& device, bool upload, uint64_t size) {
  {
    const std::lock_guard lock(mutex_);
    auto& free = free_[upload];
    const auto found = std::find_if(free.begin(), free.end(), [&](const StagingBuffer& s) { return s.size >= size; });
    if (found != free.end()) {
      StagingBuffer staging = std::move(*found);
      free.erase(found);
      return staging;
    }
    if (!free.empty()) {  // too small; a larger one takes its place
      bytes_ -= free.front().size;
      free.erase(free.begin());
    }
  }
  const WGPUBufferUsage usage =
      upload ? WGPUBufferUsage_MapWrite | WGPUBufferUsage_CopySrc : WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst;
  StagingBuffer staging;
  staging.buffer = device.create_buffer(upload ? "staging for uploads" : "staging for readback", size, usage, upload);
  staging.size = size;
  staging.mapped = upload;
  const std::lock_guard lock(mutex_);
  bytes_ += size;
  most_bytes_ = std::max(most_bytes_, bytes_);
  return staging;
}

void StagingPool::give_back(bool upload, StagingBuffer&& staging) {
  const std::lock_guard lock(mutex_);
  if (free_[upload].size() < kKept)
    free_[upload].push_back(std::move(staging));
  else
    bytes_ -= staging.size;
}

uint64_t StagingPool::most_bytes() const {
  const std::lock_guard lock(mutex_);
  return most_bytes_;
}

void StagingPool::clear() {
  const std::lock_guard lock(mutex_);
  for (auto& free : free_) free.clear();
}

void upload(DeviceImpl& device, WGPUBuffer buffer, uint64_t offset, uint64_t size, const std::byte* data,
            uint64_t given) {
  if (size == 0) return;
  if (size <= kDirectWrite) {
    const uint64_t whole = std::min(size, round_down(given, 4));
    if (whole) wgpuQueueWriteBuffer(device.queue.get(), buffer, offset, data, whole);
    if (whole == size) return;
    std::vector<std::byte> rest(size - whole);
    if (given > whole) std::memcpy(rest.data(), data + whole, std::min(given, size) - whole);
    wgpuQueueWriteBuffer(device.queue.get(), buffer, offset + whole, rest.data(), rest.size());
    return;
  }
  const uint64_t capacity = staging_size(size);
  std::deque<Lease> leases;
  for (uint64_t at = 0, turn = 0; at < size; ++turn) {
    if (leases.size() < kKept) leases.emplace_back(device, true, capacity);
    Lease& lease = leases[turn % kKept];
    lease.map();
    const uint64_t bytes = std::min(capacity, size - at);
    const uint64_t real = at < given ? std::min(bytes, given - at) : 0;
    auto* target = static_cast<std::byte*>(wgpuBufferGetMappedRange(lease.buffer(), 0, lease.size()));
    if (!target) lease.not_mapped();
    if (real) std::memcpy(target, data + at, real);
    if (bytes > real) std::memset(target + real, 0, bytes - real);
    lease.unmap();
    auto encoder = create_encoder(device);
    wgpuCommandEncoderCopyBufferToBuffer(encoder.get(), lease.buffer(), 0, buffer, offset + at, bytes);
    device.submit(std::move(encoder));
    at += bytes;
  }
}

void read_back(DeviceImpl& device, const std::vector<Readback>& ranges) {
  uint64_t total = 0;
  for (const Readback& range : ranges) total += range.size;
  const uint64_t capacity = staging_size(total);
  std::deque<Flight> flights;
  for (std::vector<Part>& parts : make_loads(ranges, capacity)) {
    if (flights.size() == kKept) {
      land(flights.front());
      flights.pop_front();
    }
    Flight flight{std::make_unique<Lease>(device, false, capacity), std::move(parts)};
    auto encoder = create_encoder(device);
    encode(encoder.get(), flight);
    device.submit(std::move(encoder));
    flights.push_back(std::move(flight));
  }
  for (Flight& flight : flights) land(flight);
}

struct RidingReadback::Load {
  Flight flight;
};

RidingReadback::RidingReadback(DeviceImpl& device, std::vector<Readback> ranges)
    : device_(device), ranges_(std::move(ranges)) {
  uint64_t total = 0;
  for (const Readback& range : ranges_) total += range.size;
  if (total == 0) return;
  const uint64_t capacity = staging_size(total);
  load_ = std::make_unique<Load>();
  load_->flight = {std::make_unique<Lease>(device_, false, capacity), std::move(make_loads(ranges_, capacity).front())};
}

RidingReadback::~RidingReadback() = default;

void RidingReadback::encode(WGPUCommandEncoder encoder) {
  if (load_) gyrus::encode(encoder, load_->flight);
}

void RidingReadback::land() {
  if (load_) gyrus::land(load_->flight);
  load_.reset();
}

}  // namespace gyrus
