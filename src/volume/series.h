#pragma once
#include <string>

#include "volume/volume.h"

namespace gyrus {

// Writes all volumes of a 4-D NIfTI file with zero outside of one mask; types, scaling, steps of time and everything
// else in the header stay, but for description and comment, which say what made it. Throws InvalidInput or Unsupported,
// naming the scan, where it is no single NIfTI file of the mask's grid or has no zero.
void write_masked_series(const std::string& path, const std::string& scan, const Volume& mask,
                         const std::string& description, const std::string& comment);

}  // namespace gyrus
