#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace gyrus::cli {
namespace {

constexpr int kWidth = 32;
constexpr std::chrono::milliseconds kRedraw{60};

}  // namespace

ProgressBar::ProgressBar(bool wanted) {
  const char* const terminal = std::getenv("TERM");
  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  active_ = wanted && is_terminal && !(terminal && std::string(terminal) == "dumb");
  logs_ = wanted && !is_terminal;
  if (const char* const seconds = std::getenv("GYRUS_LOG_SECONDS"); seconds && *seconds)
    log_seconds_ = std::max(0.0, std::strtod(seconds, nullptr));
  last_ = logs_ ? start_ : last_;
}

void ProgressBar::log(double fraction) {
  const auto now = std::chrono::steady_clock::now();
  if (std::chrono::duration<double>(now - last_).count() < log_seconds_ || fraction <= 0 || fraction >= 1) return;
  last_ = now;
  const double spent = std::chrono::duration<double>(now - start_).count();
  std::fprintf(stderr, "gyrus: %.0f %% after %.0f s, about %.0f s left\n", 100 * fraction, spent,
               std::ceil(spent * (1 - fraction) / fraction));
}

void ProgressBar::show(double fraction, const std::string& what) {
  if (logs_) log(fraction);
  if (!active_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kRedraw && fraction < 1) return;
  last_ = now;
  const int filled = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * kWidth));
  const std::string bar =
      std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kWidth - filled), '.');
  std::string left;
  if (fraction > 0.05 && fraction < 1) {
    const double spent = std::chrono::duration<double>(now - start_).count();
    const double seconds = spent * (1 - fraction) / fraction;
    left = "  " + std::to_string(static_cast<int>(std::ceil(seconds))) + " s left";
  }
  std::fprintf(stderr, "\r[%s] %3d %%%s  %.30s\033[K", bar.c_str(), static_cast<int>(fraction * 100), left.c_str(),
               what.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
  drawn_ = false;
}

}  // namespace gyrus::cli
