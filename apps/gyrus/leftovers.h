#pragma once
#include <vector>

#include "batch.h"

namespace gyrus::cli {

// Removes the temporary files that a killed run left where these jobs write. Files of other jobs and of processes that
// live are left alone: they may be another run's, perhaps on another machine.
void remove_leftovers(const std::vector<Job>& jobs, const LabelTable& classes);

}  // namespace gyrus::cli
