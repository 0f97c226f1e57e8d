#pragma once
#include <memory>
#include <vector>

#include "gyrus/device_tensor.h"
#include "plan/plan.h"
#include "runtime/device_impl.h"

namespace gyrus {

// Cut as the port was that it was kept from; the buffer numbers of `port` are those of `buffers`.
struct DeviceTensorImpl {
  std::shared_ptr<DeviceImpl> device;
  PlanPort port;
  std::vector<Buffer> buffers;
  Tensor host;  // on the CPU, instead of buffers

  std::vector<WGPUBuffer> handles() const;
};

// Memory for what a port holds.
std::shared_ptr<DeviceTensorImpl> allocate_tensor(const std::shared_ptr<DeviceImpl>& device, const PlanPort& port);
// Encodes copies of all bytes from one tensor to another, however the two are cut.
void encode_copy(WGPUCommandEncoder encoder, const PlanPort& from, const std::vector<WGPUBuffer>& from_buffers,
                 const PlanPort& to, const std::vector<WGPUBuffer>& to_buffers);

}  // namespace gyrus
