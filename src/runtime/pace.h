#pragma once
#include <chrono>
#include <mutex>

#include "gyrus/device.h"
#include "plan/plan.h"

namespace gyrus {

// Predicts how long a device takes for a step, so that a submission can be kept short. Starts from a guess by the type
// of adapter and follows what is measured: up at once, down by degrees, since too long a submission is the worse error.
class Pace {
 public:
  explicit Pace(AdapterType type);

  double seconds(const Step& step) const;
  // A submission predicted to take `predicted` seconds took `measured`.
  void observe(double predicted, double measured);
  // How long one took that was submitted and is done now: it waited for those before it, of other runs too.
  double taken(std::chrono::steady_clock::time_point submitted, std::chrono::steady_clock::time_point done);

 private:
  mutable std::mutex mutex_;
  double flops_per_second_;
  double bytes_per_second_;
  double scale_ = 1;  // measured over predicted
  std::chrono::steady_clock::time_point last_done_;
};

}  // namespace gyrus
