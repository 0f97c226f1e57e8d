#pragma once
#include <string>
#include <vector>

#include "volume/report.h"

// One table over many scans, as statistics programs read it: a line for each scan, a column for each label.

namespace gyrus::cli {

// ',' for .csv, '\t' for .tsv; throws InvalidInput on another.
char table_separator(const std::string& path);

// scan, model, weights_sha256, total_mm3, the volume of each label in mm³, warnings.
std::string group_table(const std::vector<Report>& reports, char separator);

}  // namespace gyrus::cli
