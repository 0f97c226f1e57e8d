#include "summary.h"

#include <cmath>
#include <map>

#include "core/error.h"
#include "core/text.h"

namespace gyrus::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStages[] = {"read",   "conform",    "normalize", "compile", "segment",
                                   "unpack", "components", "restore",   "write"};

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

// Seconds of each stage of this scan, and from its first to its last.
std::map<std::string, double> stage_seconds(const Timeline& timeline, const std::string& scan) {
  std::map<std::string, double> seconds;
  double first = timeline.now(), last = 0;
  for (const Timeline::Span& span : timeline.spans()) {
    if (span.scan != scan || span.track == "run" || span.track == "GPU") continue;
    seconds[span.name] += span.end - span.begin;
    first = std::min(first, span.begin);
    last = std::max(last, span.end);
  }
  seconds["total"] = last - first;
  return seconds;
}

Json labels_json(const Volume& volume, const std::map<int64_t, int64_t>& counts, const LabelTable& table) {
  const double voxel_mm3 = std::abs(determinant(volume.affine));  // not the product of the sides: axes may be oblique
  Json labels = Json::array();
  std::map<int64_t, int64_t> all = counts;
  for (const LabelEntry& entry : table.entries) all.emplace(entry.value, 0);  // those that do not occur, too
  for (const auto& [value, voxels] : all) {
    const LabelEntry* entry = table.find(value);
    labels.push_back({{"value", value},
                      {"name", entry ? entry->name : ""},
                      {"voxels", voxels},
                      {"mm3", static_cast<double>(voxels) * voxel_mm3}});
  }
  return labels;
}

Json facts_json(const Segmentation& item) {
  const RunFacts& facts = item.facts;
  return {{"precision", facts.precision},
          {"peak_bytes", facts.peak_bytes},
          {"allocated_bytes", facts.allocated_bytes},
          {"steps", facts.steps},
          {"submissions", item.profile.submissions},
          {"flops", facts.flops},
          {"bytes", facts.bytes}};
}

std::string stream_name(const std::string& path, const char* stream) { return path == "-" ? stream : path; }

Json device_json(const AdapterInfo& adapter) {
  return {{"name", adapter.name},
          {"type", to_string(adapter.type)},
          {"backend", adapter.backend},
          {"driver", adapter.driver}};
}

}  // namespace

Summary summarize(const Segmentation& item, const std::string& output, const Manifest& manifest,
                  const NormalizeOptions& normalize, const Timeline& timeline, const Provenance& by) {
  const std::map<int64_t, int64_t> counts = label_counts(item.labels);
  std::map<std::string, double> seconds = stage_seconds(timeline, item.path);
  int64_t labelled = 0;
  for (const auto& [value, voxels] : counts)
    if (value != 0) labelled += voxels;

  Summary out;
  out.text = cat(stream_name(item.path, "standard input"), ": ", labelled, " of ", item.labels.voxels(),
                 " voxels labelled by ", manifest.name, ", in ", stream_name(output, "standard output"), "\n  ",
                 item.facts.adapter.name, ", ", item.facts.precision, ", ", bytes_text(item.facts.peak_bytes),
                 "; read ", seconds_text(seconds["read"]), ", conform ", seconds_text(seconds["conform"]), ", compile ",
                 seconds_text(seconds["compile"]), item.facts.adapter.type == AdapterType::Cpu ? ", CPU " : ", GPU ",
                 seconds_text(item.profile.gpu_seconds), ", write ", seconds_text(seconds["write"]), ", in all ",
                 seconds_text(seconds["total"]), "\n");
  Json times;
  for (const char* name : kStages) times[name] = seconds[name];
  times["gpu"] = item.profile.gpu_seconds;
  times["total"] = seconds["total"];
  out.json = {{"scan", item.path},
              {"output", output},
              {"model", manifest.name},
              {"conformed", item.conformed.has_value()},
              {"grid", item.labels.dims},
              {"network_grid", item.network_input().dims},
              {"normalization",
               {{"kind", normalize_text(normalize)},
                {"low", item.normalization.source_low},
                {"high", item.normalization.source_high}}},
              {"device", device_json(item.facts.adapter)},
              {"plan", facts_json(item)},
              {"seconds", times},
              {"gpu_timestamps", item.profile.gpu_timestamps},
              {"labels", labels_json(item.labels, counts, manifest.labels)},
              {"notices", item.notices},
              {"provenance", Json::parse(provenance_json(by))}};
  return out;
}

}  // namespace gyrus::cli
