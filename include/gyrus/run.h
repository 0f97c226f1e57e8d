#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/device_tensor.h"
#include "gyrus/profile.h"
#include "gyrus/tensor.h"

namespace gyrus {

struct RunOptions {
  std::map<std::string, double> arguments;            // one for each argument of the network, within its range
  std::map<std::string, DeviceTensor> device_inputs;  // inputs that lie on the device already
  std::optional<std::vector<std::string>> outputs;    // those to read back; all unless given
  std::vector<std::string> captures;                  // those to read back as well
  std::vector<std::string> keep;                      // outputs and captures that stay on the device instead
  // Called after every submission with the part done, 0 to 1 and never less than before, and the label of the last step
  // done; returning false cancels.
  std::function<bool(double fraction, const std::string& label)> progress;
  const std::atomic<bool>* cancel = nullptr;  // set from another thread to cancel
  bool profile = false;                       // time every dispatch; needs the timestamp_query feature
};

struct RunResult {
  std::map<std::string, Tensor> outputs;  // by name, with the captures that were asked for
  std::map<std::string, DeviceTensor> kept;
  Profile profile;
};

}  // namespace gyrus
