#pragma once
#include <sstream>
#include <string>

#include "gyrus/error.h"

namespace gyrus {

// The arguments written one after another; stands in for std::format, which the WASM toolchain lacks.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// Throws Error with "[subject] message"; subject is the op, file or device concerned.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, const std::string& subject, const Args&... message) {
  throw Error(code, cat("[", subject, "] ", message...));
}

// The same with hints, the most promising first.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, const std::vector<Hint>& hints, const std::string& subject,
                       const Args&... message) {
  throw Error(code, cat("[", subject, "] ", message...), hints);
}

}  // namespace gyrus
