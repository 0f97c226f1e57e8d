#include "engine/session.h"

#include <cmath>

#include "core/error.h"
#include "core/limits.h"
#include "engine/tuner.h"

namespace gyrus {
namespace {

void check_finite(const std::string& name, const Tensor& tensor) {
  const int64_t count = tensor.size();
  int64_t i = 0;
  if (tensor.dtype == DType::F32)
    for (const float* values = tensor.as<float>(); i < count && std::isfinite(values[i]);) ++i;
  else if (tensor.dtype == DType::F16)
    while (i < count && std::isfinite(get(tensor, i))) ++i;
  else
    return;
  if (i < count)
    fail(ErrorCode::NonFinite, {Hint::SinglePrecision, Hint::OtherDevice}, name, "element ", i, " of the result is ",
         get(tensor, i), "; the network overflowed or the driver is at fault");
}

}  // namespace

CompileTarget target_of(const AdapterInfo& adapter, const std::optional<Limits>& limits) {
  CompileTarget target{adapter.name, adapter.limits, {}, adapter.memory_bytes};
  target.device = cat(adapter.name, ", ", adapter.driver, ", ", adapter.backend);
  target.kept = [](const CompileTarget& t, const Graph& graph) {
    return kept_tuning(tuning_key(t.device, graph, t.limits), t.tuning.conv);
  };
  if (adapter.type == AdapterType::Software) target.tuning = software_options();
  if (limits) target.limits = intersect(*limits, adapter.limits);
  return target;
}

struct Session::Parts {
  std::vector<std::string> notices;
  Device device;
  Plan plan;
};

Session::Parts Session::make(const Model& model, const Shape& spatial, const SessionOptions& options) {
  const AdapterInfo adapter = choose_adapter(options.device);
  CompileTarget target = target_of(adapter, options.limits);
  if (options.memory_bytes) target.memory_bytes = options.memory_bytes;
  Compiled compiled = compile(model, spatial, options.network, target, options.precision);
  DeviceOptions wanted;
  wanted.selector = std::to_string(adapter.index);
  wanted.limits = compiled.plan.needs;
  wanted.features = compiled.plan.features;
  wanted.features.timestamp_query = adapter.features.timestamp_query;
  return {std::move(compiled.notices), open_device(wanted), std::move(compiled.plan)};
}

Session::Session(const Model& model, const Shape& spatial, const SessionOptions& options)
    : Session(make(model, spatial, options)) {}

Session::Session(Parts parts)
    : notices_(std::move(parts.notices)), device_(std::move(parts.device)), executor_(device_, std::move(parts.plan)) {}

RunResult Session::run(const Tensor& image, const Normalization& normalization, const RunOptions& options) {
  const auto scalar = [](double value) { return Tensor::from_floats({1}, {static_cast<float>(value)}); };
  RunResult result = executor_.run(
      {{"image", image}, {"scale", scalar(normalization.scale)}, {"shift", scalar(normalization.shift)}}, options);
  for (const auto& [name, tensor] : result.outputs) check_finite(name, tensor);
  return result;
}

}  // namespace gyrus
