#include "engine/timeline.h"

#include <map>
#include <nlohmann/json.hpp>

namespace gyrus {

void Timeline::add(Span span) {
  const std::lock_guard lock(mutex_);
  spans_.push_back(std::move(span));
}

void Timeline::add(const Profile& profile, double begin, const std::string& scan) {
  constexpr double kNs = 1e-9;
  for (const StageTime& stage : profile.stages)
    add({"run", stage.name, scan, begin + static_cast<double>(stage.begin_ns) * kNs,
         begin + static_cast<double>(stage.end_ns) * kNs});
  const double gpu = begin + static_cast<double>(profile.gpu_begin_ns) * kNs;
  if (profile.steps.empty()) add({"GPU", "network", scan, gpu, gpu + profile.gpu_seconds});
  for (const StepTime& step : profile.steps)
    add({"GPU", step.label + " " + step.kernel, scan, gpu + static_cast<double>(step.begin_ns) * kNs,
         gpu + static_cast<double>(step.end_ns) * kNs});
}

std::vector<Timeline::Span> Timeline::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

std::string Timeline::trace() const {
  using Json = nlohmann::ordered_json;
  std::map<std::string, int> tracks;
  Json events = Json::array();
  for (const Span& span : spans()) {
    const auto [track, is_new] = tracks.try_emplace(span.track, static_cast<int>(tracks.size()) + 1);
    if (is_new)
      events.push_back(
          {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track->second}, {"args", {{"name", span.track}}}});
    events.push_back({{"name", span.name},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", track->second},
                      {"ts", span.begin * 1e6},
                      {"dur", (span.end - span.begin) * 1e6},
                      {"args", {{"scan", span.scan}}}});
  }
  const Json root = {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
  return root.dump();
}

}  // namespace gyrus
