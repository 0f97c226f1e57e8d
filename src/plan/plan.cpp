#include "plan/plan.h"

namespace gyrus {

uint64_t Plan::peak_bytes() const {
  uint64_t sum = 0;
  for (const PlanBuffer& buffer : buffers) sum += buffer.size;
  return sum;
}

double Plan::flops() const {
  double sum = 0;
  for (const Step& step : steps)
    if (const auto* dispatch = std::get_if<Dispatch>(&step)) sum += dispatch->flops;
  return sum;
}

double Plan::bytes() const {
  double sum = 0;
  for (const Step& step : steps)
    if (const auto* dispatch = std::get_if<Dispatch>(&step)) sum += dispatch->bytes;
  return sum;
}

}  // namespace gyrus
