#pragma once
#include <string>

#include "engine/manifest.h"

namespace gyrus::cli {

// Whether nothing says how scans are prepared for a model: no gyrus.json in its folder, and it is not a known one.
bool lacks_manifest(const DescribedModel& described);
// Says so on standard error, with the command that helps.
void say_lacking(const DescribedModel& described, const std::string& as_given);
// Writes a gyrus.json with what is used now, to be changed by hand; gives its path. Throws InvalidInput where there is
// one already.
std::string write_manifest(const DescribedModel& described);

}  // namespace gyrus::cli
