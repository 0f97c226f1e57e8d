#pragma once
#include <cstdint>
#include <string>

#include "volume/volume.h"

namespace gyrus {

enum class NormalizeKind : uint8_t { None, MinMax, Quantile };

struct NormalizeOptions {
  NormalizeKind kind = NormalizeKind::MinMax;
  double low = 0.02;  // quantiles, of all voxels
  double high = 0.98;
};

// "minmax", "none", "quantile" or "quantile:LOW,HIGH" with fractions; throws InvalidInput on anything else.
NormalizeOptions parse_normalize(const std::string& text);

// normalised = clamp(value * scale + shift, clamp_low, clamp_high), the attributes of the op affine_clamp.
struct Normalization {
  double scale = 1;
  double shift = 0;
  double clamp_low = -3.4028234663852886e38;  // no clamping
  double clamp_high = 3.4028234663852886e38;
  double source_low = 0;  // the values that become 0 and 1
  double source_high = 1;
};

// How to bring the volume's values (slope and intercept applied) to [0, 1]. Quantiles interpolate linearly between
// order statistics over all voxels. Throws InvalidInput on NaN, infinities and volumes without contrast.
Normalization normalization_of(const Volume& volume, const NormalizeOptions& options);

// The quantile itself, q in [0, 1].
double quantile(const Volume& volume, double q);

}  // namespace gyrus
