#pragma once
#include "graph/op.h"

namespace gyrus {

// y = clamp(x * scale + shift, lo, hi) in f32, from any element type. Prepares voxel intensities.
struct AffineClamp {
  double scale = 1;
  double shift = 0;
  double lo = -3.4028234663852886e38;
  double hi = 3.4028234663852886e38;
};
AffineClamp affine_clamp_attrs(const Attrs& attrs);

extern const OpDef kAffineClamp;

}  // namespace gyrus
