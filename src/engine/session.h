#pragma once
#include <map>
#include <optional>
#include <string>

#include "engine/compile.h"
#include "gyrus/device.h"
#include "runtime/executor.h"

// A plan loaded onto a device.

namespace gyrus {

// An adapter, with the limits given (which must not exceed its own) instead of its own.
CompileTarget target_of(const AdapterInfo& adapter, const std::optional<Limits>& limits = std::nullopt);

struct SessionOptions {
  PrecisionChoice precision = PrecisionChoice::Auto;
  MatrixUse matrix = MatrixUse::Auto;
  std::string device;                    // as for choose_adapter
  std::optional<Limits> limits;          // as for target_of
  int threads = 0;                       // of the CPU; 0: as many as the process may use
  std::optional<uint64_t> memory_bytes;  // instead of what the adapter tells
};

// The device that the options choose, as a target.
CompileTarget target_of(const SessionOptions& options);

// The same as compile() for the CPU: f32, and with Auto f16 where there is not enough memory for that. Throws
// OverLimits where there is less than it needs.
Compiled compile_for_cpu(const Model& model, const Shape& spatial, const NetworkOptions& network,
                         const CompileTarget& target, PrecisionChoice precision);

// A compiled network on a device, run as often as wanted, by one thread at a time. Where the network sees a part of the
// volume at a time, a run is all its windows.
class Session {
 public:
  // On the adapter that `device` means, as for choose_adapter.
  Session(const std::string& device, Compiled compiled, int threads = 0);

  // `inputs` are those of network_graph(), or "image" alone for ONNX models. Throws NonFinite when a result is not
  // finite, and what Executor::run throws.
  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& options = {});

  const AdapterInfo& adapter() const { return device_.adapter(); }
  const Device& device() const { return device_; }
  const Plan& plan() const { return executor_.plan(); }
  uint64_t allocated_bytes() const;
  uint64_t peak_bytes() const { return peak_bytes_; }  // as planned
  double flops() const { return flops_; }              // of a run
  bool can_profile() const { return device_.features().timestamp_query; }
  const Decision& decision() const { return decision_; }

 private:
  RunResult run_windows(const Tensor& image, const RunOptions& options);

  Decision decision_;
  uint64_t peak_bytes_ = 0;
  double flops_ = 0;
  std::vector<Start> starts_;  // of windows; empty where there are none
  Device device_;
  Memory memory_;
  Executor executor_;
  std::optional<Executor> finish_;
};

}  // namespace gyrus
