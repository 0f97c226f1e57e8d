#pragma once
#include <chrono>
#include <string>

namespace gyrus::cli {

// A bar with the remaining time on standard error where that is a terminal; nothing elsewhere.
class ProgressBar {
 public:
  explicit ProgressBar(bool wanted);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { clear(); }

  void show(double fraction, const std::string& what);
  void clear();

 private:
  bool active_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace gyrus::cli
