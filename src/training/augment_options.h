#pragma once
#include <cstdint>

#include "core/error.h"
#include "gyrus/ops.h"

namespace gyrus {

// Stands in for gyrus/augment.h until that is here.
struct AugmentOptions {
  bool flip[3] = {};
  double rotate = 0;
  double scale = 0, shear = 0;
  double translate = 0;
  double elastic = 0;
  int64_t elastic_spacing = 16;
  double noise = 0;
  double bias = 0;
  int64_t bias_spacing = 64;
  double gamma = 0;
  double contrast = 0, brightness = 0;
  double blur = 0;
  double resolution = 0;
  bool synthesize = false;
  int64_t labels = 0;
};

struct Augmented {
  Value image, labels;
};
inline Augmented augment(Value, Value, Value, int64_t, const AugmentOptions&) {
  fail(ErrorCode::Unsupported, "augment", "is not in this build");
}

}  // namespace gyrus
