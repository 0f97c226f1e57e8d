#include "volume/report.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace gyrus {

namespace {

// A whole brain of a child or an adult; outside of it something is odd.
constexpr double kSmallBrain = 600e3, kLargeBrain = 2200e3;  // mm³

constexpr int64_t kBorderShare =
    500;  // a scan is cut off where more than one labelled voxel in so many lies on its border

struct Sums {
  int64_t voxels = 0;
  double value = 0, squares = 0;  // squares: of the differences from the mean
  Vec3d index{0, 0, 0};
  int64_t on_border = 0;  // of the volume
};

// Calls f(slot of the label, voxel index, x, y, z) for every voxel that has one.
template <class F>
void for_each_labelled(const Volume& labels, F f) {
  const bool bytes = labels.type == VoxelType::U8;
  int64_t i = 0;
  for (int64_t z = 0; z < labels.dims[2]; ++z)
    for (int64_t y = 0; y < labels.dims[1]; ++y)
      for (int64_t x = 0; x < labels.dims[0]; ++x, ++i) {
        const int64_t label = bytes ? labels.as<uint8_t>()[i] : labels.as<int16_t>()[i];
        if (label != 0) f(static_cast<size_t>(label + 32768), i, x, y, z);
      }
}

struct Gathered {
  std::vector<Sums> sums = std::vector<Sums>(65536);  // by label + 32768
  int64_t not_finite = 0;
};

Gathered gather(const std::vector<float>& values, const Volume& labels) {
  Gathered out;
  const Dims& n = labels.dims;
  for_each_labelled(labels, [&](size_t slot, int64_t i, int64_t x, int64_t y, int64_t z) {
    Sums& s = out.sums[slot];
    ++s.voxels;
    s.index[0] += static_cast<double>(x);
    s.index[1] += static_cast<double>(y);
    s.index[2] += static_cast<double>(z);
    const auto v = static_cast<double>(values[static_cast<size_t>(i)]);
    if (std::isfinite(v)) {
      s.value += v;
    } else {
      ++out.not_finite;
    }
    s.on_border += x == 0 || y == 0 || z == 0 || x == n[0] - 1 || y == n[1] - 1 || z == n[2] - 1;
  });
  for_each_labelled(labels, [&](size_t slot, int64_t i, int64_t, int64_t, int64_t) {
    Sums& s = out.sums[slot];
    const auto v = static_cast<double>(values[static_cast<size_t>(i)]);
    if (!std::isfinite(v)) return;
    const double d = v - s.value / static_cast<double>(s.voxels);
    s.squares += d * d;
  });
  return out;
}

LabelStatistics statistics_of(const LabelEntry& entry, const Sums& s, const Affine& affine, double voxel_mm3) {
  LabelStatistics out{entry.value, entry.name, s.voxels, static_cast<double>(s.voxels) * voxel_mm3};
  if (s.voxels == 0) return out;
  const auto n = static_cast<double>(s.voxels);
  out.mean = s.value / n;
  out.sd = std::sqrt(s.squares / n);
  out.centroid = map_point(affine, {s.index[0] / n, s.index[1] / n, s.index[2] / n});
  return out;
}

enum class Kind { Other, Grey, White, Csf };

// What a label is, by the words in its name (FreeSurfer's names and plain ones).
Kind kind_of(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
  for (const char* word : {"csf", "ventricle", "cerebrospinal"})
    if (has(word)) return Kind::Csf;
  for (const char* word : {"white", "brain-stem", "brainstem", "callosum"})
    if (has(word)) return Kind::White;
  for (const char* word : {"grey", "gray", "cortex", "ctx", "thalamus", "caudate", "putamen", "pallidum", "hippocampus",
                           "amygdala", "accumbens", "ventraldc"})
    if (has(word)) return Kind::Grey;
  return Kind::Other;
}

void add_totals(Report& report) {
  for (const LabelStatistics& label : report.labels) {
    report.total_mm3 += label.mm3;
    std::optional<double>* total = nullptr;
    switch (kind_of(label.name)) {
      case Kind::Grey: total = &report.grey_mm3; break;
      case Kind::White: total = &report.white_mm3; break;
      case Kind::Csf: total = &report.csf_mm3; break;
      case Kind::Other: break;
    }
    if (total != nullptr) *total = total->value_or(0) + label.mm3;
  }
}

// Labels of what lies around the brain, by the words in their names: they reach the border, and are no part of its
// volume.
bool is_around_brain(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* word : {"skull", "scalp", "skin"})
    if (name.find(word) != std::string::npos) return true;
  return false;
}

void add_warnings(Report& report, const Gathered& gathered, bool brain) {
  std::string missing;
  int64_t count = 0;
  for (const LabelStatistics& label : report.labels) {
    if (label.voxels != 0) continue;
    if (++count <= 5) missing += (missing.empty() ? "" : ", ") + label.name;
  }
  if (report.total_mm3 == 0) {
    report.warnings.emplace_back("no voxel has a label");
    return;
  }
  if (count > 0)
    report.warnings.push_back(
        cat(count, count == 1 ? " label is" : " labels are", " missing: ", missing, count > 5 ? " …" : ""));
  double brain_mm3 = 0;
  int64_t on_border = 0, voxels = 0;
  for (const LabelStatistics& label : report.labels) {
    if (is_around_brain(label.name)) continue;
    brain_mm3 += label.mm3;
    voxels += label.voxels;
    on_border += gathered.sums[static_cast<size_t>(label.value + 32768)].on_border;
  }
  if (brain && brain_mm3 > 0 && (brain_mm3 < kSmallBrain || brain_mm3 > kLargeBrain))
    report.warnings.push_back(cat("the labels fill ", std::round(brain_mm3 / 1000), " ml; a brain has ",
                                  kSmallBrain / 1000, " to ", kLargeBrain / 1000));
  if (on_border * kBorderShare > voxels)
    report.warnings.push_back(cat(on_border, " labelled voxels lie on the border of the scan: is it cut off?"));
  if (gathered.not_finite > 0)
    report.warnings.push_back(cat(gathered.not_finite, " labelled voxels have no finite intensity"));
}

// Rounded to so many decimals, without zeros at the end and never with an exponent.
std::string number(double value, int decimals) {
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  std::string out = text;
  if (out.find('.') == std::string::npos) return out;  // not finite
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

// A field of a CSV line (RFC 4180); in a TSV tabs and line ends become blanks.
std::string field(std::string text, char separator) {
  if (separator == '\t') {
    for (char& c : text)
      if (c == '\t' || c == '\n' || c == '\r') c = ' ';
    return text;
  }
  if (text.find_first_of("\",\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// The nearest that JSON writes with so many decimals.
double rounded(double value, int decimals) {
  const double scale = std::pow(10, decimals);
  return std::round(value * scale) / scale;
}

}  // namespace

Report make_report(const Volume& scan, const Volume& labels, const LabelTable& table, bool brain) {
  check_same_extents(scan, labels);
  if ((labels.type != VoxelType::U8 && labels.type != VoxelType::I16) || labels.is_scaled())
    fail(ErrorCode::InvalidInput, labels.name, "labels must be plain uint8 or int16, not ", to_string(labels.type));
  Report report;
  report.scan = scan.name;
  report.dims = scan.dims;
  report.spacing = scan.spacing();
  const double voxel_mm3 = std::abs(determinant(scan.affine));
  const Gathered gathered = gather(to_floats(scan), labels);
  const auto add = [&](const LabelEntry& entry) {
    report.labels.push_back(
        statistics_of(entry, gathered.sums[static_cast<size_t>(entry.value + 32768)], scan.affine, voxel_mm3));
  };
  for (const LabelEntry& entry : table.entries)
    if (entry.value != 0 && entry.value >= -32768 && entry.value < 32768) add(entry);
  for (int64_t value = -32768; value < 32768; ++value)
    if (gathered.sums[static_cast<size_t>(value + 32768)].voxels > 0 && table.find(value) == nullptr)
      add({value, cat("label ", value), {}});
  add_totals(report);
  add_warnings(report, gathered, brain);
  return report;
}

std::string report_json(const Report& report) {
  using Json = nlohmann::ordered_json;
  Json labels = Json::array();
  for (const LabelStatistics& label : report.labels) {
    Json entry{{"value", label.value}, {"name", label.name}, {"voxels", label.voxels}, {"mm3", rounded(label.mm3, 3)}};
    if (label.voxels > 0) {
      entry["mean"] = rounded(label.mean, 6);
      entry["sd"] = rounded(label.sd, 6);
      entry["centroid_ras_mm"] = {rounded(label.centroid[0], 3), rounded(label.centroid[1], 3),
                                  rounded(label.centroid[2], 3)};
    }
    labels.push_back(entry);
  }
  Json totals{{"all_mm3", rounded(report.total_mm3, 3)}};
  if (report.grey_mm3) totals["grey_mm3"] = rounded(*report.grey_mm3, 3);
  if (report.white_mm3) totals["white_mm3"] = rounded(*report.white_mm3, 3);
  if (report.csf_mm3) totals["csf_mm3"] = rounded(*report.csf_mm3, 3);
  Json spacing = Json::array();
  for (const double mm : report.spacing) spacing.push_back(rounded(mm, 6));
  Json out{{"scan", report.scan}, {"dims", report.dims}, {"spacing_mm", spacing},
           {"totals", totals},    {"labels", labels},    {"warnings", report.warnings}};
  if (report.provenance) out["provenance"] = provenance_object(*report.provenance);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string report_table(const Report& report, char separator) {
  const std::string s(1, separator);
  std::string out = cat("value", s, "name", s, "voxels", s, "mm3", s, "mean", s, "sd", s, "centroid_r_mm", s,
                        "centroid_a_mm", s, "centroid_s_mm", s, "scan", s, "model", s, "weights_sha256\n");
  const Provenance by = report.provenance.value_or(Provenance{});
  const std::string behind = cat(s, field(report.scan, separator), s, field(by.model, separator), s, by.weights, "\n");
  for (const LabelStatistics& label : report.labels) {
    out += cat(label.value, s, field(label.name, separator), s, label.voxels, s, number(label.mm3, 3));
    // What does not exist stays empty.
    const double values[] = {label.mean, label.sd, label.centroid[0], label.centroid[1], label.centroid[2]};
    for (size_t i = 0; i < std::size(values); ++i)
      out += s + (label.voxels > 0 ? number(values[i], i < 2 ? 6 : 3) : std::string());
    out += behind;
  }
  return out;
}

}  // namespace gyrus
