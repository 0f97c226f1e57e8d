#pragma once
#include <map>
#include <string>

#include "training/config.h"
#include "training/networks.h"

namespace gyrus {

// Writes FOLDER/model: the network's files and a gyrus.json, as `gyrus segment` and the page take them; what the config
// asks for besides goes into FOLDER. The folder appears when it is complete. Gives its path.
std::string write_model_folder(const std::string& folder, const TrainConfig& config, const TrainNetwork& network,
                               const std::map<std::string, Tensor>& weights);

}  // namespace gyrus
