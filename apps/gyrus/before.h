#pragma once
#include "batch.h"

// What an earlier run left of a scan, and whether it is what is wanted now.

namespace gyrus::cli {

// Throws InvalidInput where the scan comes from a pipe, which can be read only once.
void check_comparable(const Job& job);

// What made the labels that are there. Throws InvalidInput, with what to do, where they or the mask and brain beside
// them are of another scan, model or options than `wanted` says, or do not say what made them.
Provenance check_before(const Job& job, const Provenance& wanted, double border_mm);

// The scan with the labels that are there, as if it had been segmented now.
Segmentation read_before(const Job& job, const PipelineOptions& options, const Manifest& manifest);

}  // namespace gyrus::cli
