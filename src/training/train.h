#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/device.h"
#include "training/config.h"

// The whole of a training: data, steps, validation, checkpoints, pictures, the model folder at the end.

namespace gyrus {

struct Validation {
  double dice = 0;                // mean over the labels but the background
  std::vector<double> of_labels;  // of each class, mean over subjects
};

struct TrainProgress {
  int64_t step = 0, steps = 0;  // done; wanted
  double loss = 0, rate = 0;
  std::optional<double> dice;  // of the last validation
  double seconds_left = 0;
};

struct TrainRun {
  std::string out;     // instead of the config's
  std::string device;  // as for choose_adapter
  int threads = 0;     // of the CPU; 0: as many as there are
  std::optional<Limits> limits;
  bool resume = false;
  std::function<void(const AdapterInfo&)> opened{};  // data are good, and this is the device
  std::function<void(const TrainProgress&)> progress{};
  std::function<void(const std::string& line)> say{};
  std::function<void(int64_t step, Device&)> after_step{};  // for tests
  const std::atomic<bool>* cancel = nullptr;                // set to stop at a checkpoint
};

struct TrainResult {
  std::string folder;  // of the model
  int64_t steps = 0;   // done in all
  double loss = 0;
  std::optional<Validation> validation;  // of what was written
  bool stopped_early = false;
};

// Throws InvalidInput, Io … for what is wrong with config and data before a device is opened and anything written;
// NonFinite where a loss is not finite, with checkpoint and parameters of the last good step kept; Cancelled.
TrainResult train(const TrainConfig& config, const TrainRun& run);

// What would be trained: no step is run.
struct TrainOutline {
  size_t subjects = 0, validation_subjects = 0;
  Shape extents;  // of an input
  std::vector<int64_t> class_voxels;
  int64_t parameters = 0, trained = 0;  // numbers
  uint64_t peak_bytes = 0;              // of a step, on the device
  uint64_t least_bytes = 0;             // the same with all that is cheap made again on the way back
  uint64_t state_bytes = 0;             // of them weights and the optimiser's states
  double flops = 0;                     // of a step
};
TrainOutline outline(const TrainConfig& config, const Target& target);

// Dice of the model in a training's folder on the config's evaluation, a mean for every level. Throws InvalidInput
// where the config has none.
struct PhantomScore {
  double noise = 0, bias = 0;
  Validation validation;
};
std::vector<PhantomScore> evaluate(const TrainConfig& config, const TrainRun& run);

}  // namespace gyrus
