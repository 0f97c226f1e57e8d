#pragma once
#include <cstdlib>

#include "core/tensor.h"
#include "gyrus/device.h"

// What tests of networks on a device share.

namespace gyrus::test {

// Small numbers of both signs.
inline Tensor numbers(const Shape& shape, int64_t seed = 1) {
  Tensor t(DType::F32, shape);
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, static_cast<double>((i * 31 + seed * 17) % 23) * 0.05 - 0.5);
  return t;
}

// On which a test runs that any device must pass: WebGPU, or what GYRUS_TEST_DEVICE names.
inline Device tested_device() {
  const char* named = std::getenv("GYRUS_TEST_DEVICE");
  return open_best(named ? named : "webgpu");
}

// One for a whole program of tests.
inline Device& device() {
  static Device shared = open_gpu();
  return shared;
}

}  // namespace gyrus::test
