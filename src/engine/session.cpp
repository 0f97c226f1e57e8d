#include "engine/session.h"

#include "core/error.h"
#include "core/limits.h"
#include "engine/tuner.h"

namespace gyrus {
namespace {

Device device_for(const std::string& selector, const Plan& plan) {
  DeviceOptions wanted;
  wanted.selector = selector;
  wanted.limits = plan.needs;
  wanted.features = plan.features;
  wanted.features.timestamp_query = choose_adapter(selector).features.timestamp_query;
  return open_device(wanted);
}

}  // namespace

CompileTarget target_of(const AdapterInfo& adapter, const std::optional<Limits>& limits) {
  CompileTarget target{static_cast<const Target&>(adapter), adapter.name, {}, std::nullopt};
  if (adapter.memory_bytes) target.memory = MemoryBudget{*adapter.memory_bytes};
  target.device = cat(adapter.name, ", ", adapter.driver, ", ", adapter.backend);
  target.kept = [](const CompileTarget& t, const Graph& graph) {
    return kept_tuning(tuning_key(t.device, graph, t.limits), t.tuning.conv);
  };
  if (adapter.type == AdapterType::Software) target.tuning = software_options();
  if (limits) target.limits = intersect(*limits, adapter.limits);
  return target;
}

CompileTarget target_of(const SessionOptions& options) {
  CompileTarget target = target_of(choose_adapter(options.device), options.limits);
  if (options.memory_bytes) target.memory = MemoryBudget{*options.memory_bytes};
  return target;
}

Session::Session(const std::string& device, Compiled compiled)
    : decision_(std::move(compiled.decision)),
      device_(device_for(device, compiled.plan)),
      executor_(device_, std::move(compiled.plan)) {}

RunResult Session::run(const std::map<std::string, Tensor>& inputs, const RunOptions& options) {
  RunResult result = executor_.run(inputs, options);
  for (const auto& [name, tensor] : result.outputs) refuse_nonfinite(name, tensor);
  return result;
}

}  // namespace gyrus
