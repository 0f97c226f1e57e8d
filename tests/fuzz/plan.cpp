#include "plan/plan.h"

#include "core/limits.h"
#include "fuzz/fuzz.h"
#include "plan/check.h"

// A plan's JSON, a zero byte, its weights. What is accepted must come out again as text that means the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const gyrus::fuzz::TwoFiles files(data, size);
  const std::string json(reinterpret_cast<const char*>(files.first.data()), files.first.size());
  return gyrus::fuzz::expect_only_errors([&] {
    const gyrus::Plan plan = gyrus::parse_plan(json, files.second);
    const std::string text = gyrus::to_json(plan);
    if (gyrus::to_json(gyrus::parse_plan(text, files.second)) != text) std::abort();
    gyrus::check(plan, gyrus::default_limits());
  });
}
