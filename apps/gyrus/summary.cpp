#include "summary.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "engine/text.h"

namespace gyrus::cli {
namespace {

using Json = nlohmann::ordered_json;

// Voxels of each label that occurs.
std::map<int64_t, int64_t> label_counts(const Volume& labels) {
  std::map<int64_t, int64_t> counts;
  visit_elements(labels, [&](const auto* values) {
    int64_t i = 0;
    const int64_t n = labels.voxels();
    while (i < n) {  // runs of equal labels are long
      const auto value = values[i];
      const int64_t first = i;
      while (i < n && values[i] == value) ++i;
      counts[static_cast<int64_t>(value)] += i - first;
    }
  });
  return counts;
}

double stage_seconds(const Summary& summary, const std::string& name) {
  double seconds = 0;
  for (const Timeline::Span& span : summary.timeline.spans())
    if (span.name == name && span.scan == summary.item.path && span.track != "run" && span.track != "GPU")
      seconds += span.end - span.begin;
  return seconds;
}

Json times_json(const Summary& summary) {
  Json times;
  for (const char* name : {"read", "conform", "normalize", "compile", "segment", "components", "restore", "write"})
    times[name] = stage_seconds(summary, name);
  times["gpu"] = summary.item.profile.gpu_seconds;
  times["total"] = summary.timeline.now();
  return times;
}

Json labels_json(const Summary& summary) {
  const Vec3d mm = summary.item.labels.spacing();
  Json labels = Json::array();
  for (const auto& [value, voxels] : label_counts(summary.item.labels)) {
    const LabelEntry* entry = summary.manifest.labels.find(value);
    labels.push_back({{"value", value},
                      {"name", entry ? entry->name : ""},
                      {"voxels", voxels},
                      {"mm3", static_cast<double>(voxels) * mm[0] * mm[1] * mm[2]}});
  }
  return labels;
}

}  // namespace

std::string summary_text(const Summary& summary) {
  const Item& item = summary.item;
  int64_t labelled = 0;
  for (const auto& [value, voxels] : label_counts(item.labels))
    if (value != 0) labelled += voxels;
  const Plan& plan = summary.session.plan();
  return cat(item.path, ": ", labelled, " of ", item.labels.voxels(), " voxels labelled by ", summary.manifest.name,
             ", in ", summary.output, "\n  ", summary.session.adapter().name, ", ", plan.precision, ", ",
             bytes_text(plan.peak_bytes()), "; read ", seconds_text(stage_seconds(summary, "read")), ", compile ",
             seconds_text(stage_seconds(summary, "compile")), ", GPU ", seconds_text(item.profile.gpu_seconds),
             ", write ", seconds_text(stage_seconds(summary, "write")), ", in all ",
             seconds_text(summary.timeline.now()), "\n");
}

std::string summary_json(const Summary& summary) {
  const Item& item = summary.item;
  const Plan& plan = summary.session.plan();
  const AdapterInfo& adapter = summary.session.adapter();
  const Json out = {
      {"scan", item.path},
      {"output", summary.output},
      {"model", summary.manifest.name},
      {"conformed", item.conformed.has_value()},
      {"grid", item.labels.dims},
      {"network_grid", item.network_input().dims},
      {"normalization",
       {{"kind", normalize_text(summary.options.normalize)},
        {"low", item.normalization.source_low},
        {"high", item.normalization.source_high}}},
      {"device",
       {{"name", adapter.name},
        {"type", to_string(adapter.type)},
        {"backend", adapter.backend},
        {"driver", adapter.driver}}},
      {"plan",
       {{"precision", plan.precision},
        {"peak_bytes", plan.peak_bytes()},
        {"allocated_bytes", summary.session.allocated_bytes()},
        {"steps", plan.steps.size()},
        {"submissions", item.profile.submissions},
        {"flops", plan.flops()},
        {"bytes", plan.bytes()}}},
      {"seconds", times_json(summary)},
      {"gpu_timestamps", item.profile.gpu_timestamps},
      {"labels", labels_json(summary)},
      {"notices", item.notices},
  };
  return out.dump(2);
}

}  // namespace gyrus::cli
