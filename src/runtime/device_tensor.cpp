#include "gyrus/device_tensor.h"

#include <algorithm>

#include "core/error.h"
#include "runtime/device_tensor_impl.h"
#include "runtime/staging.h"

namespace gyrus {

DType DeviceTensor::dtype() const { return impl_->port.dtype; }
const Shape& DeviceTensor::shape() const { return impl_->port.shape; }

Tensor DeviceTensor::read() const {
  impl_->device->check("reading back a tensor");
  if (impl_->device->pool) return impl_->host;
  Tensor tensor(dtype(), shape());
  std::vector<Readback> readbacks;
  for (const Piece& piece : impl_->port.pieces)
    readbacks.push_back({impl_->buffers[piece.range.buffer].get(), 0, piece.range.size,
                         tensor.data.data() + piece.host_offset,
                         std::min<uint64_t>(piece.range.size, tensor.data.size() - piece.host_offset)});
  read_back(*impl_->device, readbacks);
  impl_->device->check("reading back a tensor");
  return tensor;
}

std::vector<WGPUBuffer> DeviceTensorImpl::handles() const {
  std::vector<WGPUBuffer> list;
  for (const Buffer& buffer : buffers) list.push_back(buffer.get());
  return list;
}

std::shared_ptr<DeviceTensorImpl> allocate_tensor(const std::shared_ptr<DeviceImpl>& device, const PlanPort& port) {
  auto tensor = std::make_shared<DeviceTensorImpl>();
  tensor->device = device;
  tensor->port = port;
  for (Piece& piece : tensor->port.pieces) {
    piece.range.buffer = static_cast<uint32_t>(tensor->buffers.size());
    piece.range.offset = 0;
    tensor->buffers.push_back(device->create_buffer(cat("tensor '", port.name, "'"), piece.range.size,
                                                    WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst,
                                                    /*mapped=*/false));
  }
  return tensor;
}

void encode_copy(WGPUCommandEncoder encoder, const PlanPort& from, const std::vector<WGPUBuffer>& from_buffers,
                 const PlanPort& to, const std::vector<WGPUBuffer>& to_buffers) {
  for (const Piece& a : from.pieces) {
    for (const Piece& b : to.pieces) {
      const uint64_t begin = std::max(a.host_offset, b.host_offset);
      const uint64_t end = std::min(a.host_offset + a.range.size, b.host_offset + b.range.size);
      if (begin >= end) continue;
      wgpuCommandEncoderCopyBufferToBuffer(encoder, from_buffers[a.range.buffer],
                                           a.range.offset + begin - a.host_offset, to_buffers[b.range.buffer],
                                           b.range.offset + begin - b.host_offset, end - begin);
    }
  }
}

}  // namespace gyrus
