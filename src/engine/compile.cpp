#include "engine/compile.h"

#include "core/error.h"
#include "core/limits.h"
#include "engine/text.h"

namespace gyrus {
namespace {

Compiled compile_as(const Model& model, const Shape& spatial, const NetworkOptions& network,
                    const CompileTarget& target, Precision precision, const PassObserver& observer) {
  Compiled out;
  out.before = network_graph(model, spatial, network);
  out.after = optimize(out.before, precision, observer);
  PlanOptions tuning = target.tuning;
  if (target.kept)
    if (const auto kept = target.kept(target, out.after)) tuning.conv = *kept;
  out.plan = make_plan(out.after, target.limits, tuning);
  return out;
}

bool fits(const Plan& plan, const CompileTarget& target) {
  return !target.memory_bytes || plan.peak_bytes() <= *target.memory_bytes;
}

[[noreturn]] void fail_memory(const Model& model, const Shape& spatial, const Plan& plan, const CompileTarget& target) {
  const Hint first = plan.precision == "f16" ? Hint::SmallerModel : Hint::HalfPrecision;
  fail(ErrorCode::OverLimits, {first, Hint::SmallerVolume}, model.name, "needs ", bytes_text(plan.peak_bytes()),
       " of GPU memory for ", extents_text(spatial), " voxels in ", plan.precision, ", but ", target.name, " has ",
       bytes_text(*target.memory_bytes));
}

}  // namespace

CompileTarget default_target() { return {"a device with WebGPU's default limits", default_limits(), {}, std::nullopt}; }

PrecisionChoice parse_precision(const std::string& text) {
  if (text == "f32") return PrecisionChoice::F32;
  if (text == "f16") return PrecisionChoice::F16;
  if (text == "auto") return PrecisionChoice::Auto;
  fail(ErrorCode::InvalidInput, "precision", "\"", text, "\" is none of f32, f16, auto");
}

Compiled compile(const Model& model, const Shape& spatial, const NetworkOptions& network, const CompileTarget& target,
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

}  // namespace gyrus
