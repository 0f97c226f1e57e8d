#include "engine/session.h"

#include <cmath>
#include <iomanip>

#include "core/error.h"
#include "core/limits.h"
#include "engine/text.h"
#include "engine/tuner.h"

namespace gyrus {
namespace {

Compiled compile_as(const Model& model, const Shape& spatial, const NetworkOptions& network, const Target& target,
                    Precision precision, const PassObserver& observer) {
  Compiled out;
  out.before = network_graph(model, spatial, network);
  out.after = optimize(out.before, precision, observer);
  PlanOptions tuning = target.tuning;
  if (!target.device.empty())
    if (const auto kept = kept_tuning(tuning_key(target.device, out.after, target.limits), tuning.conv))
      tuning.conv = *kept;
  out.plan = make_plan(out.after, target.limits, tuning);
  return out;
}

bool fits(const Plan& plan, const Target& target) {
  return !target.memory_bytes || plan.peak_bytes() <= *target.memory_bytes;
}

[[noreturn]] void fail_memory(const Model& model, const Shape& spatial, const Plan& plan, const Target& target) {
  const char* hint = plan.precision == "f16" ? "a smaller volume or a smaller model"
                                             : "--precision f16, which needs about half, or a smaller volume";
  fail(ErrorCode::OverLimits, model.name, "needs ", bytes_text(plan.peak_bytes()), " of GPU memory for ",
       extents_text(spatial), " voxels in ", plan.precision, ", but ", target.name, " has ",
       bytes_text(*target.memory_bytes), "; try ", hint);
}

void check_finite(const std::string& name, const Tensor& tensor) {
  if (tensor.dtype != DType::F32) return;
  const float* values = tensor.as<float>();
  const int64_t count = tensor.size();
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(values[i]))
      fail(ErrorCode::Device, name, "element ", i, " of the result is ", values[i],
           "; the network overflowed or the driver is at fault: try --precision f32 or another --device");
}

}  // namespace

Target default_target() { return {"a device with WebGPU's default limits", default_limits(), {}, std::nullopt}; }

Target target_of(const AdapterInfo& adapter, const std::optional<Limits>& limits) {
  Target target{adapter.name, adapter.limits, {}, adapter.memory_bytes};
  target.device = cat(adapter.name, ", ", adapter.driver, ", ", adapter.backend);
  if (adapter.type == AdapterType::Software) target.tuning = software_options();
  if (limits) target.limits = intersect(*limits, adapter.limits);
  return target;
}

PrecisionChoice parse_precision(const std::string& text) {
  if (text == "f32") return PrecisionChoice::F32;
  if (text == "f16") return PrecisionChoice::F16;
  if (text == "auto") return PrecisionChoice::Auto;
  fail(ErrorCode::InvalidInput, "--precision", "\"", text, "\" is none of f32, f16, auto");
}

Compiled compile(const Model& model, const Shape& spatial, const NetworkOptions& network, const Target& target,
                 PrecisionChoice precision, const PassObserver& observer) {
  const Precision first = precision == PrecisionChoice::F16 ? Precision::F16 : Precision::F32;
  Compiled out = compile_as(model, spatial, network, target, first, observer);
  if (!fits(out.plan, target) && precision == PrecisionChoice::Auto) {
    const uint64_t f32_bytes = out.plan.peak_bytes();
    out = compile_as(model, spatial, network, target, Precision::F16, observer);
    out.notices.push_back(cat("f32 would need ", bytes_text(f32_bytes), " of GPU memory, ", target.name, " has ",
                              bytes_text(*target.memory_bytes), "; using f16"));
  }
  if (!fits(out.plan, target)) fail_memory(model, spatial, out.plan, target);
  return out;
}

struct Session::Parts {
  std::vector<std::string> notices;
  Device device;
  Plan plan;
};

Session::Parts Session::make(const Model& model, const Shape& spatial, const SessionOptions& options) {
  const AdapterInfo adapter = choose_adapter(options.device);
  Target target = target_of(adapter, options.limits);
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
