// The group level: one table of what all participants have.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "bids.h"
#include "core/error.h"
#include "group_table.h"
#include "volume/io.h"

namespace gyrus::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kFar = 3.5;                             // robust standard deviations from the median
constexpr size_t kFewest = 5;                            // scans from which a spread can be told
constexpr double kMadToSd = 1.4826, kMeanToSd = 1.2533;  // of a normal distribution: median and mean distance to SD

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  return fields;
}

// What `gyrus bids --outputs report` wrote: value, name, voxels, mm3 and, at the end, scan, model, weights.
Report read_morph(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file(path.string());
  std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::string line;
  std::getline(in, line);
  Report report;
  const std::string name = path.filename().string();
  report.scan = name.substr(0, name.find("_seg-")) +
                (name.find("_desc-") == std::string::npos
                     ? ""
                     : name.substr(name.find("_desc-"), name.rfind('_') - name.find("_desc-")));
  Provenance by;
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = split(line);
    if (fields.size() < 12) fail(ErrorCode::InvalidInput, path.string(), "is no report of this version of gyrus");
    LabelStatistics label;
    label.name = fields[1];
    label.mm3 = std::strtod(fields[3].c_str(), nullptr);
    report.total_mm3 += label.mm3;
    report.labels.push_back(label);
    by.model = fields[10];
    by.weights = fields[11];
  }
  report.provenance = by;
  return report;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

// Warns of volumes far from those of the other scans.
void mark_outliers(std::vector<Report>& reports, size_t label) {
  std::vector<double> values, distances;
  for (const Report& report : reports) values.push_back(report.labels[label].mm3);
  const double middle = median(values);
  for (const double value : values) distances.push_back(std::abs(value - middle));
  double spread = kMadToSd * median(distances);
  if (spread == 0)  // most are equal: the mean distance tells
    spread =
        kMeanToSd * std::accumulate(distances.begin(), distances.end(), 0.0) / static_cast<double>(distances.size());
  for (size_t i = 0; i < reports.size() && spread > 0; ++i)
    if (distances[i] > kFar * spread)
      reports[i].warnings.push_back(cat(reports[i].labels[label].name, ": ",
                                        std::round(10 * distances[i] / spread) / 10, " standard deviations ",
                                        values[i] < middle ? "below" : "above", " the median"));
}

}  // namespace

std::string group_table_path(const BidsLayout& layout) {
  return (fs::path(layout.output) / ("group_seg-" + entity_label(layout.model) + "_morph.tsv")).string();
}

std::pair<std::string, size_t> write_bids_group(const BidsLayout& layout) {
  const std::string seg = "_seg-" + entity_label(layout.model);
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(layout.output, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    const bool ours = name.find(seg + "_") != std::string::npos && name.starts_with("sub-");
    if (ours && name.ends_with("_morph.tsv")) files.push_back(entry->path());
  }
  if (failed && fs::exists(layout.output)) fail(ErrorCode::Io, layout.output, "cannot be read: ", failed.message());
  if (files.empty())
    fail(ErrorCode::InvalidInput, layout.output, "holds no report of ", layout.model,
         "; run the level participant with --outputs report first");
  std::sort(files.begin(), files.end());
  std::vector<Report> reports;
  for (const fs::path& file : files) reports.push_back(read_morph(file));
  const bool alike = std::all_of(reports.begin(), reports.end(),
                                 [&](const Report& r) { return r.labels.size() == reports[0].labels.size(); });
  for (size_t label = 0; alike && reports.size() >= kFewest && label < reports[0].labels.size(); ++label)
    mark_outliers(reports, label);
  const std::string path = group_table_path(layout);
  write_file(path, group_table(reports, '\t'));
  return {path, reports.size()};
}

}  // namespace gyrus::cli
