#pragma once
#include <memory>

#include "gyrus/tensor.h"

namespace gyrus {

struct DeviceTensorImpl;

// A tensor that a run left on its device (RunOptions::keep) and that another run on it takes as an input
// (RunOptions::device_inputs). Copies share it; its memory is freed with the last.
class DeviceTensor {
 public:
  DType dtype() const;
  const Shape& shape() const;
  Tensor read() const;  // to the host

  explicit DeviceTensor(std::shared_ptr<const DeviceTensorImpl> impl) : impl_(std::move(impl)) {}
  const DeviceTensorImpl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const DeviceTensorImpl> impl_;
};

}  // namespace gyrus
