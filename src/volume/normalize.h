#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "volume/volume.h"

namespace gyrus {

enum class NormalizeKind : uint8_t {
  None,
  MinMax,
  Quantile,
  ZScore,      // (value - mean) / standard deviation, of all voxels or of those that are not 0
  Window,      // low and high become two numbers; clipped
  ClipZScore,  // clipped to low and high, then (value - mean) / deviation, all four given: CT in nnU-Net's way
};

struct NormalizeOptions {
  NormalizeKind kind = NormalizeKind::MinMax;
  double low = 0.02;  // Quantile: fractions of all voxels; Window, ClipZScore: values
  double high = 0.98;
  double to_low = 0;  // Window: what low and high become
  double to_high = 1;
  bool nonzero = false;  // ZScore: of voxels that are not 0; zeros stay
  double mean = 0;       // ClipZScore
  double deviation = 1;
  bool operator==(const NormalizeOptions&) const = default;
};

// "none", "minmax", "quantile", "quantile:LOW,HIGH" with fractions, "zscore", "zscore:nonzero", "window:LOW,HIGH",
// "window:LOW,HIGH,TO_LOW,TO_HIGH" or "clip-zscore:LOW,HIGH,MEAN,DEVIATION"; throws InvalidInput on anything else.
NormalizeOptions parse_normalize(const std::string& text);
// As parse_normalize reads it: "quantile:0.02,0.98".
std::string normalize_text(const NormalizeOptions& options);

// normalised = clamp(value * scale + shift, clamp_low, clamp_high), the attributes of the op affine_clamp.
struct Normalization {
  double scale = 1;
  double shift = 0;
  double clamp_low = -3.4028234663852886e38;  // no clamping
  double clamp_high = 3.4028234663852886e38;
  double source_low = 0;  // the values that become 0 and 1
  double source_high = 1;
  bool keep_zeros = false;  // voxels that are 0 stay so
};

// How to bring the volume's values (slope and intercept applied) to where the options want them, mostly [0, 1].
// Quantiles interpolate linearly between order statistics over all voxels. Throws InvalidInput on NaN, infinities and
// volumes without contrast.
Normalization normalization_of(const Volume& volume, const NormalizeOptions& options);
// All voxels as these say, in the order of the volume.
std::vector<float> normalized(const Volume& volume, const Normalization& normalization);

// The quantile itself, q in [0, 1].
double quantile(const Volume& volume, double q);

}  // namespace gyrus
