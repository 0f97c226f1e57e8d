#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/compile.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "volume/normalize.h"

// A plan loaded onto a device.

namespace gyrus {

// An adapter, with the limits given (which must not exceed its own) instead of its own.
CompileTarget target_of(const AdapterInfo& adapter, const std::optional<Limits>& limits = std::nullopt);

struct SessionOptions {
  PrecisionChoice precision = PrecisionChoice::Auto;
  std::string device;                    // as for choose_adapter
  std::optional<Limits> limits;          // as for target_of
  std::optional<uint64_t> memory_bytes;  // instead of what the adapter tells
  NetworkOptions network;
};

// A model for volumes of one size on a device, run as often as wanted, by one thread at a time.
class Session {
 public:
  Session(const Model& model, const Shape& spatial, const SessionOptions& options = {});

  // `image` is [1, C, spatial…] of the dtype of options.network.input. Throws NonFinite when a result is not finite,
  // and what Executor::run throws.
  RunResult run(const Tensor& image, const Normalization& normalization, const RunOptions& options = {});

  const AdapterInfo& adapter() const { return device_.adapter(); }
  const Device& device() const { return device_; }
  const Plan& plan() const { return executor_.plan(); }
  uint64_t allocated_bytes() const { return executor_.allocated_bytes(); }
  bool can_profile() const { return device_.features().timestamp_query; }
  const std::vector<std::string>& notices() const { return notices_; }

 private:
  struct Parts;
  explicit Session(Parts parts);
  static Parts make(const Model& model, const Shape& spatial, const SessionOptions& options);

  std::vector<std::string> notices_;
  Device device_;
  Executor executor_;
};

}  // namespace gyrus
