#pragma once
#include <chrono>
#include <string>

namespace gyrus::cli {

// A bar with the remaining time on standard error where that is a terminal; elsewhere a line every minute (or every
// $GYRUS_LOG_SECONDS), so that a log shows that it goes on.
class ProgressBar {
 public:
  explicit ProgressBar(bool wanted);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { clear(); }

  void show(double fraction, const std::string& what);
  void clear();

 private:
  void log(double fraction);

  bool active_ = false, logs_ = false;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_{};
  double log_seconds_ = 60;
};

}  // namespace gyrus::cli
