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

// Into the folder of a training: curves.png, sample.png (the first volume of the validation with truth and labels),
// train.html, and log.js, which that page loads again and again while the training runs.
void write_pictures(const std::string& folder, const TrainConfig& config, const LogCurves& curves,
                    const std::optional<SamplePicture>& sample, int64_t step, double seconds, bool done);

}  // namespace gyrus
