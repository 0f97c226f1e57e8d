#pragma once
#include <stdexcept>
#include <string>

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
};

// The name of a code, as printed in JSON summaries.
const char* to_string(ErrorCode code);

// The one exception type of gyrus. The message starts with "[op]" or "[file]" and is a single line.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace gyrus
