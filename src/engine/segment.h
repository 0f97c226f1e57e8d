#pragma once
#include "engine/session.h"
#include "volume/volume.h"

// Volumes through a session.

namespace gyrus {

struct Segmentation {
  Volume labels;  // on the grid of the scan, U8 (I16 or I32 over 256 classes)
  Profile profile;
};

// The labels of a volume. The session must be made for its extents and network_options().
Segmentation segment(Session& session, const Volume& volume, const Normalization& normalization,
                     const RunOptions& options = {});

}  // namespace gyrus
