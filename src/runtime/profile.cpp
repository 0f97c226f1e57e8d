#include "gyrus/profile.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace gyrus {
namespace {

struct KernelSum {
  std::string name;
  uint64_t calls = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
};

std::vector<KernelSum> sum_by_kernel(const std::vector<StepTime>& steps) {
  std::map<std::string, KernelSum> sums;
  for (const StepTime& step : steps) {
    KernelSum& sum = sums[step.kernel];
    sum.name = step.kernel;
    ++sum.calls;
    sum.seconds += static_cast<double>(step.end_ns - step.begin_ns) * 1e-9;
    sum.flops += step.flops;
    sum.bytes += step.bytes;
  }
  std::vector<KernelSum> list;
  for (const auto& [name, sum] : sums) list.push_back(sum);
  std::stable_sort(list.begin(), list.end(),
                   [](const KernelSum& a, const KernelSum& b) { return a.seconds > b.seconds; });
  return list;
}

std::string table_row(const KernelSum& sum, double total, size_t width) {
  const double rate = sum.seconds > 0 ? 1 / sum.seconds : 0;
  char numbers[128];
  std::snprintf(numbers, sizeof numbers, "%7llu %10.3f %6.1f %9.3f %9.1f\n", static_cast<unsigned long long>(sum.calls),
                sum.seconds * 1e3, total > 0 ? 100 * sum.seconds / total : 0, sum.flops * rate * 1e-12,
                sum.bytes * rate * 1e-9);
  std::string name = sum.name;
  name.resize(width, ' ');
  return name + numbers;
}

nlohmann::ordered_json track_name(int track, const char* name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", name}}}};
}

nlohmann::ordered_json span(const std::string& name, int track, uint64_t begin_ns, uint64_t end_ns) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", 1},
          {"tid", track},
          {"ts", static_cast<double>(begin_ns) * 1e-3},
          {"dur", static_cast<double>(end_ns - begin_ns) * 1e-3}};
}

}  // namespace

std::string profile_table(const Profile& profile) {
  std::vector<KernelSum> sums = sum_by_kernel(profile.steps);
  KernelSum total{"total", 0, 0, 0, 0};
  size_t width = 24;
  for (const KernelSum& sum : sums) {
    total.calls += sum.calls;
    total.seconds += sum.seconds;
    total.flops += sum.flops;
    total.bytes += sum.bytes;
    width = std::max(width, sum.name.size() + 1);
  }
  std::string head = "kernel";
  head.resize(width, ' ');
  std::string text = head + "  calls         ms      %   TFLOP/s      GB/s\n";
  for (const KernelSum& sum : sums) text += table_row(sum, total.seconds, width);
  return text + table_row(total, total.seconds, width);
}

std::string trace_json(const Profile& profile) {
  constexpr int kHost = 1, kGpu = 2;
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  events.push_back(track_name(kHost, "host"));
  events.push_back(track_name(kGpu, "GPU"));
  for (const StageTime& stage : profile.stages) events.push_back(span(stage.name, kHost, stage.begin_ns, stage.end_ns));
  for (const StepTime& step : profile.steps) {
    auto event = span(step.label.empty() ? step.kernel : step.label, kGpu, profile.gpu_begin_ns + step.begin_ns,
                      profile.gpu_begin_ns + step.end_ns);
    event["args"] = {{"kernel", step.kernel}, {"flops", step.flops}, {"bytes", step.bytes}};
    events.push_back(std::move(event));
  }
  const nlohmann::ordered_json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace gyrus
