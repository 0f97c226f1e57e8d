#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gyrus/gyrus.h"
#include "support/test_data.h"

// Networks whose training PyTorch ran in float64, as graphs with a loss.

namespace gyrus::test {

struct TrainingNet {
  Graph graph;  // outputs "y" and "loss"
  TrainerOptions options;
  std::map<std::string, Tensor> inputs;
  std::vector<double> losses;  // of every step
  std::map<std::string, Tensor> gradients, final, captures;
};

// "adam", "adamw" or "sgd" of shared/data/training.
TrainingNet small_meshnet(const std::string& optimizer);
// "meshnet3d", "unet2d", "encoder" or "lm" of shared/data/goldens.
TrainingNet golden_net(const std::string& name);

}  // namespace gyrus::test
