#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "volume/labels.h"
#include "volume/provenance.h"
#include "volume/volume.h"

namespace gyrus {

struct LabelStatistics {
  int64_t value = 0;
  std::string name;
  int64_t voxels = 0;
  double mm3 = 0;
  double mean = 0;          // intensity of the scan, with its slope and intercept
  double sd = 0;            // of all voxels of the label (divided by n)
  Vec3d centroid{0, 0, 0};  // RAS mm
};

struct Report {
  std::string scan;
  Dims dims{};
  Vec3d spacing{};                      // mm
  std::vector<LabelStatistics> labels;  // of the table, then others that occur; without the background
  double total_mm3 = 0;                 // of all of them
  std::optional<double> grey_mm3;       // where names say so: cortex and nuclei, white matter and brain stem,
  std::optional<double> white_mm3;      // ventricles and CSF
  std::optional<double> csf_mm3;
  std::vector<std::string> warnings;
  std::optional<Provenance> provenance;  // what made the labels
};

// Statistics of each label over the scan, and what a reader should look at: labels missing, an unusual volume, a border
// touched, values that are not finite. Both on one grid; labels U8 or I16. `brain`: together they should fill one.
Report make_report(const Volume& scan, const Volume& labels, const LabelTable& table, bool brain = true);

std::string report_json(const Report& report);
// One line per label, with a header line; `separator` ',' or '\t'.
std::string report_table(const Report& report, char separator);
// JSON, CSV or TSV by the end of the path; throws InvalidInput on another.
void write_report(const std::string& path, const Report& report);

}  // namespace gyrus
