#pragma once
#include <vector>

#include "batch.h"

namespace gyrus::cli {

// Removes the temporary files and claims that a killed run left where these jobs, and `others`, write. Files of other
// jobs, of processes that live and of jobs that another process claims are left alone: they may be another run's,
// perhaps on another machine.
void remove_leftovers(const std::vector<Job>& jobs, const LabelTable& classes, const std::vector<std::string>& others);

}  // namespace gyrus::cli
