#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gyrus {

// What kind of thing went wrong; the command line maps each to an exit status.
enum class ErrorCode {
  InvalidModel,  // a model file is broken, incomplete or contradicts itself
  InvalidGraph,  // a graph breaks an op's contract
  Unsupported,   // well-formed, but gyrus does not do it
  OverLimits,    // does not fit the device's limits or memory
  Device,        // no adapter, a lost device, a refused allocation, a failed pipeline
  InvalidInput,  // bad data or arguments given by the caller
  Io,            // a file that cannot be read or written
  Cancelled,     // the caller asked to stop
  NonFinite,     // a value of the network is infinite or not a number
};

// What may help after an error. Messages name no option of any program: the command line words hints as flags, the page
// as buttons.
enum class Hint : uint8_t {
  HalfPrecision,    // store feature maps in f16, which needs about half the memory
  SinglePrecision,  // store feature maps in f32
  SmallerVolume,    // fewer voxels
  SmallerModel,     // a network that needs less
  OtherModel,       // a network for such scans
  OtherDevice,      // another GPU or driver
  CheckFinite,      // test every value of the network, which names the first node that is not finite
  AllowEmpty,       // accept a result without any label
  FetchModel,       // bring the model into the store
  FetchFromFolder,  // the same from files that were brought by hand
};

// The names of codes and hints, as printed in JSON summaries.
const char* to_string(ErrorCode code);
const char* to_string(Hint hint);

// The one exception type of gyrus. The message starts with "[op]" or "[file]" and is a single line.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::vector<Hint> hints = {}, bool state_changed = false)
      : std::runtime_error(message), code_(code), hints_(std::move(hints)), state_changed_(state_changed) {}
  ErrorCode code() const { return code_; }
  const std::vector<Hint>& hints() const { return hints_; }  // the most promising first
  // Whether the run that failed may have changed states; where not, all are as they were before it.
  bool state_changed() const { return state_changed_; }

 private:
  ErrorCode code_;
  std::vector<Hint> hints_;
  bool state_changed_ = false;
};

}  // namespace gyrus
