#pragma once
#include "engine/session.h"
#include "volume/volume.h"

// Volumes through a session.

namespace gyrus {

// The network's ends for this volume: bytes go to the device as they are, everything else as floats.
NetworkOptions network_options(const Volume& volume, const NormalizeOptions& normalize,
                               NetworkOutput output = NetworkOutput::Labels);

// The extents of the volume as the network sees them. Throws Unsupported unless the model takes volumes of one channel.
Shape spatial_shape(const Model& model, const Volume& volume);

struct Segmentation {
  Volume labels;  // on the grid of the scan, U8 (I16 or I32 over 256 classes)
  Profile profile;
};

// The labels of a volume. The session must be made for its extents and network_options().
Segmentation segment(Session& session, const Volume& volume, const Normalization& normalization,
                     const RunOptions& options = {});

}  // namespace gyrus
