#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/network.h"
#include "gyrus/segmenter.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "volume/normalize.h"

// From a model to a plan that fits a device, and the plan loaded onto it.

namespace gyrus {

// What a plan is made for: a device as the planner sees it.
struct Target {
  std::string name;
  Limits limits;
  PlanOptions tuning;
  std::optional<uint64_t> memory_bytes;
  std::string device{};  // adapter and driver, under which tunings are kept; empty: none are looked for
};

// The specification's default limits, of no device in particular.
Target default_target();
// An adapter, with the limits given (which must not exceed its own) instead of its own.
Target target_of(const AdapterInfo& adapter, const std::optional<Limits>& limits = std::nullopt);

// "f32", "f16" or "auto"; throws InvalidInput on anything else.
PrecisionChoice parse_precision(const std::string& text);

struct Compiled {
  Graph before;  // as imported, with the normalisation in front and the argmax behind
  Graph after;   // as planned
  Plan plan;
  std::vector<std::string> notices;  // what was decided for the user; one line each
};

// Called with the name of each pass and the graph that it made.
using PassObserver = std::function<void(const std::string& pass, const Graph&)>;

// Throws OverLimits when the plan needs more memory than the target has, saying what to try.
Compiled compile(const Model& model, const Shape& spatial, const NetworkOptions& network, const Target& target,
                 PrecisionChoice precision, const PassObserver& observer = {});

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

  // `image` is [1, C, spatial…] of the dtype of options.network.input. Throws Device when a result is not finite, and
  // what Executor::run throws.
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
