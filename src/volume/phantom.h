#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "volume/volume.h"

namespace gyrus {

// The labels of a phantom's truth.
enum class Tissue : uint8_t { Background, Skull, Csf, Grey, White, Ventricle };
inline constexpr int kTissues = 6;

const char* to_string(Tissue tissue);

struct PhantomOptions {
  Dims dims{128, 128, 128};  // a cube of 256 mm is divided into so many voxels
  uint64_t seed = 1;         // shape, folds, bias field and noise
  double noise = 4;          // standard deviation, grey levels of 255
  double bias = 0.1;         // the field varies intensities by up to this fraction
};

struct Phantom {
  Volume image;  // uint8, T1-like: skull and scalp, CSF, grey, white, ventricles
  Volume truth;  // uint8, Tissue values
};

// A synthetic head with a folded cortex, in the orientation of conformed scans (axes L, I, A). The same options give
// the same bytes on every platform.
Phantom make_phantom(const PhantomOptions& options);

}  // namespace gyrus
