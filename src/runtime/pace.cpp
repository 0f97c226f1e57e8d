#include "runtime/pace.h"

#include <algorithm>

namespace gyrus {
namespace {

constexpr double kShortest = 2e-3;      // seconds; what takes less says nothing about the pace
constexpr double kStepOverhead = 5e-6;  // seconds; keeps thousands of empty steps from forming one submission

struct Cost {
  double flops;
  double bytes;
};

Cost cost_of(const Step& step) {
  if (const auto* dispatch = std::get_if<Dispatch>(&step)) return {dispatch->flops, dispatch->bytes};
  if (const auto* copy = std::get_if<Copy>(&step)) return {0, 2.0 * static_cast<double>(copy->from.size)};
  return {0, static_cast<double>(std::get<Clear>(step).range.size)};
}

}  // namespace

Pace::Pace(AdapterType type) {
  switch (type) {
    case AdapterType::Discrete:
      flops_per_second_ = 1e12;
      bytes_per_second_ = 2e11;
      break;
    case AdapterType::Software:
      flops_per_second_ = 3e9;
      bytes_per_second_ = 3e9;
      break;
    default:
      flops_per_second_ = 2e11;
      bytes_per_second_ = 3e10;
      break;
  }
}

double Pace::seconds(const Step& step) const {
  const Cost cost = cost_of(step);
  const std::lock_guard lock(mutex_);
  return kStepOverhead + scale_ * std::max(cost.flops / flops_per_second_, cost.bytes / bytes_per_second_);
}

double Pace::taken(std::chrono::steady_clock::time_point submitted, std::chrono::steady_clock::time_point done) {
  const std::lock_guard lock(mutex_);
  const auto begun = std::max(submitted, last_done_);
  last_done_ = std::max(last_done_, done);
  return std::max(0.0, std::chrono::duration<double>(done - begun).count());
}

void Pace::observe(double predicted, double measured) {
  // Of a short submission one measures the way to the device and back, and how busy the host is.
  if (predicted < kShortest && measured < 10 * kShortest) return;
  const std::lock_guard lock(mutex_);
  const double ratio = measured / predicted;
  scale_ *= ratio > 1 ? std::min(ratio, 16.0) : std::max(0.5, 0.5 + 0.5 * ratio);
  scale_ = std::clamp(scale_, 1e-4, 1e4);
}

}  // namespace gyrus
