#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace gyrus {

// A file on a server, as long as we know it to be.
struct Download {
  std::string url;
  std::string path;                                // of the part that is here already, to which the rest is appended
  uint64_t bytes = 0;                              // of the whole file
  std::function<void(uint64_t)> progress;          // bytes so far
  std::function<void(const std::string&)> detail;  // what was tried, for those who want to know
  const std::atomic<bool>* cancel = nullptr;       // set from another thread to stop
};

// Brings the rest of the file: resumes where `path` ends, follows redirects, and tries again after failures that may
// pass. Throws Io with what was tried, and leaves the part that came for the next time; Cancelled where that was asked
// for.
void download(const Download& wanted);

}  // namespace gyrus
