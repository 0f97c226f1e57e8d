#include "group_table.h"

#include <algorithm>
#include <cstdio>

#include "core/error.h"

namespace gyrus::cli {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::string field(std::string text, char separator) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  if (separator == '\t' || text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// Names of all labels, in the order in which they first come.
std::vector<std::string> columns_of(const std::vector<Report>& reports) {
  std::vector<std::string> names;
  for (const Report& report : reports)
    for (const LabelStatistics& label : report.labels)
      if (std::find(names.begin(), names.end(), label.name) == names.end()) names.push_back(label.name);
  return names;
}

std::string line_of(const Report& report, const std::vector<std::string>& columns, char separator) {
  const Provenance by = report.provenance.value_or(Provenance{});
  const std::string s(1, separator);
  std::string line =
      cat(field(report.scan, separator), s, field(by.model, separator), s, by.weights, s, number(report.total_mm3));
  for (const std::string& column : columns) {
    double mm3 = 0;
    for (const LabelStatistics& label : report.labels)
      if (label.name == column) mm3 += label.mm3;
    line += s + number(mm3);
  }
  std::string warnings;
  for (const std::string& warning : report.warnings) warnings += (warnings.empty() ? "" : "; ") + warning;
  return line + s + field(warnings, separator) + "\n";
}

}  // namespace

char table_separator(const std::string& path) {
  if (path.ends_with(".csv")) return ',';
  if (path.ends_with(".tsv")) return '\t';
  fail(ErrorCode::InvalidInput, path, "a table is .csv or .tsv; name it so");
}

std::string group_table(const std::vector<Report>& reports, char separator) {
  const std::vector<std::string> columns = columns_of(reports);
  const std::string s(1, separator);
  std::string out = cat("scan", s, "model", s, "weights_sha256", s, "total_mm3");
  for (const std::string& column : columns) out += s + field(column, separator);
  out += s + "warnings\n";
  for (const Report& report : reports) out += line_of(report, columns, separator);
  return out;
}

}  // namespace gyrus::cli
