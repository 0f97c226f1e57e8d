#include "engine/policy.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"

namespace gyrus {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

uint64_t gib(double count) { return static_cast<uint64_t>(count * kGiB); }

std::string limit_text(const MemoryBudget& budget) {
  if (budget.certain) return cat("there are ", bytes_text(budget.bytes));
  return cat("more than ", bytes_text(budget.bytes), " is not to be counted on: ", budget.because);
}

std::optional<PlanChoice> smaller(const Attempt& failed) {
  const PlanChoice& plan = failed.plan;
  if (!plan.halves && failed.wish == PrecisionChoice::Auto) return PlanChoice{true, plan.small_buffers};
  if (!plan.small_buffers && !failed.on_cpu) return PlanChoice{plan.halves, true};
  return std::nullopt;
}

template <class IsFinite>
void refuse_first(const std::string& name, const Tensor& result, IsFinite is_finite) {
  for (int64_t i = 0; i < result.size(); ++i)
    if (!is_finite(i))
      fail(ErrorCode::NonFinite, {Hint::SinglePrecision, Hint::OtherDevice}, name, "element ", i, " of the result is ",
           get(result, i), "; the network overflowed or the driver is at fault");
}

}  // namespace

std::string to_string(const PlanChoice& choice) {
  return cat("the plan in ", choice.halves ? "f16" : "f32",
             choice.small_buffers ? " with WebGPU's default limits" : "");
}

Limits limits_for(const PlanChoice& choice, const Limits& own) {
  Limits limits = own;
  if (!choice.small_buffers) return limits;
  const Limits least = default_limits();
  limits.max_buffer_size = std::min(own.max_buffer_size, least.max_buffer_size);
  limits.max_storage_buffer_binding_size =
      std::min(own.max_storage_buffer_binding_size, least.max_storage_buffer_binding_size);
  return limits;
}

MemoryBudget likely_memory(const Limits& limits, const BrowserFacts& facts) {
  const Limits least = default_limits();
  if (facts.mobile) return {gib(1.5), false, "this is a phone or tablet"};
  if (limits.max_storage_buffer_binding_size <= least.max_storage_buffer_binding_size &&
      limits.max_buffer_size <= least.max_buffer_size)
    return {gib(1.5), false, "the GPU offers only WebGPU's smallest limits"};
  if (facts.memory_gib && *facts.memory_gib <= 4)
    return {gib(*facts.memory_gib / 2), false, cat("the machine has about ", *facts.memory_gib, " GiB of memory")};
  return {gib(4), false, "many GPUs have no more, or share the machine's memory"};
}

Decision choose_plan(PrecisionChoice wish, const std::optional<MemoryBudget>& budget, const PlanBytes& bytes_of) {
  const bool open = wish == PrecisionChoice::Auto, halves = wish == PrecisionChoice::F16;
  if (!open && (!budget || !budget->certain)) return {{halves, false}, "asked for", ""};
  std::vector<PlanChoice> ladder = {{halves, false}, {halves, true}};
  if (open) ladder.insert(ladder.end(), {{true, false}, {true, true}});
  std::string why;
  for (const PlanChoice& plan : ladder) {
    const std::optional<uint64_t> bytes = bytes_of(plan);
    if (bytes && (!budget || *bytes <= budget->bytes)) {
      if (plan == ladder[0]) return {plan, cat(to_string(plan), " needs ", bytes_text(*bytes)), ""};
      if (plan.small_buffers) why += cat("; for WebGPU's default limits ", bytes_text(*bytes), ", a little slower");
      return {plan, why,
              cat(plan.halves == halves ? "planned for WebGPU's default limits" : "storing feature maps in f16", ": ",
                  why)};
    }
    if (plan == ladder[0])
      why = bytes ? cat(to_string(plan), " needs ", bytes_text(*bytes), ", and ", limit_text(*budget))
                  : cat("no ", to_string(plan).substr(4), " keeps this GPU's limits");
  }
  // Nothing surely fits. A guess may be wrong, so that halves are worth a try; where there is no doubt, the least that
  // is needed is worth telling.
  if (budget && budget->certain) return {ladder.back(), why, ""};
  return {{open || halves, false}, why, cat("storing feature maps in f16: ", why)};
}

std::optional<Attempt> next_attempt(const Attempt& failed, Failure failure) {
  Attempt next = failed;
  if (failure == Failure::NonFinite) {
    next.check_finite = true;
    return failed.check_finite ? std::nullopt : std::optional(next);
  }
  if (failure == Failure::DeviceLost && failed.losses == 0) {
    next.losses = 1;
    return next;
  }
  const std::optional<PlanChoice> plan = smaller(failed);
  if (!plan) return std::nullopt;
  next.plan = *plan;
  next.losses = 0;
  return next;
}

std::string notice_of(const Attempt& failed, Failure failure, const Attempt& next) {
  if (failure == Failure::NonFinite) return {};
  const bool lost = failure == Failure::DeviceLost;
  if (failed.plan == next.plan) return "the device was lost; ran again on a new one";
  const char* what = lost            ? "the GPU was lost with "
                     : failed.on_cpu ? "there was not the memory for "
                                     : "the GPU did not give the memory for ";
  return cat(what, to_string(failed.plan), "; trying ", to_string(next.plan));
}

void refuse_nonfinite(const std::string& name, const Tensor& result) {
  if (result.dtype == DType::F32)
    refuse_first(name, result, [values = result.as<float>()](int64_t i) { return std::isfinite(values[i]); });
  if (result.dtype == DType::F16) refuse_first(name, result, [&](int64_t i) { return std::isfinite(get(result, i)); });
}

void refuse_empty(const std::string& model, std::span<const std::byte> labels, bool on_cpu) {
  if (std::any_of(labels.begin(), labels.end(), [](std::byte b) { return b != std::byte{0}; })) return;
  std::vector<Hint> hints = {Hint::OtherModel, Hint::AllowEmpty};
  if (!on_cpu) hints.insert(hints.begin() + 1, Hint::OtherDevice);
  fail(on_cpu ? ErrorCode::InvalidInput : ErrorCode::Device, hints, model,
       "found no label in the whole scan: it is not a head as the model knows them, or another contrast, or its "
       "intensities are unusual",
       on_cpu ? "" : "; or the GPU failed");
}

}  // namespace gyrus
