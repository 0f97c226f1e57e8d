#pragma once
#include <hwy/targets.h>

#include <cstdint>
#include <functional>
#include <vector>

// What the tests of the CPU's kernels share.

namespace gyrus::cpu {

// Small numbers of both signs without a pattern that convolutions could hide behind.
inline std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = seed * 2654435761u + 12345u;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(state >> 8) - (1 << 23)) / static_cast<float>(1 << 23);
  }
  return values;
}

// Calls `body` once for every instruction set that was compiled and that this machine has.
inline void for_every_target(const std::function<void(const char* name)>& body) {
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0  // one alone, chosen by the compiler
  body(hwy::TargetName(HWY_TARGETS));
#else
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
#endif
}

}  // namespace gyrus::cpu
