#pragma once
#include <optional>
#include <string>

#include "training/checkpoint.h"
#include "training/config.h"
#include "training/validate.h"
#include "volume/image.h"

namespace gyrus {

// Loss and Dice over the steps.
Image picture_of_curves(const LogCurves& curves, const std::vector<std::string>& labels, const std::string& title);

struct TrainPictures {
  std::optional<SamplePicture> sample;  // of the validation
  std::optional<SamplePicture> input;   // of a step
};
struct TrainMoment {
  int64_t step = 0;
  double seconds = 0;
  bool done = false;
};

// Into the folder of a training: curves.png, sample.png (the first volume of the validation with truth and labels),
// input.png (what the network saw in a step), train.html, and log.js, which that page loads again and again while the
// training runs.
void write_pictures(const std::string& folder, const TrainConfig& config, const LogCurves& curves,
                    const TrainPictures& pictures, const TrainMoment& at);

}  // namespace gyrus
