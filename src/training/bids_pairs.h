#pragma once
#include <string>
#include <vector>

#include "training/config.h"

namespace gyrus {

// Pairs of a BIDS dataset and a derivative of it: for every label map …_LABEL_SUFFIX.nii.gz below `labels`, the image
// …_SUFFIX.nii.gz below `images` whose entities (sub-, ses-, acq-, run- …) are all among those of the label map and
// which shares most of them. Throws InvalidInput where there are none, or an image is missing or could be two.
std::vector<PairConfig> find_bids_pairs(const std::string& images, const std::string& labels, const std::string& suffix,
                                        const std::string& label_suffix);

}  // namespace gyrus
