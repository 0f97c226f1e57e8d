#pragma once
#include <string>

#include "engine/manifest.h"

namespace gyrus::cli {

// Whether nothing says how scans are prepared for a model: no gyrus.json in its folder, and it is not a known one.
bool lacks_manifest(const DescribedModel& described);
// Says so on standard error, with the command that helps.
void say_lacking(const DescribedModel& described, const std::string& as_given);
// Writes a gyrus.json into the folder of a model (folder, file or name), to be changed by hand, and gives its path:
// with what is used now or, of an ONNX file, what that says of itself. Throws InvalidInput where there is one already.
std::string write_manifest(const std::string& text);

}  // namespace gyrus::cli
