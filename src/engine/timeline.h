#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "gyrus/profile.h"

namespace gyrus {

// What happened when, on named tracks; for summaries and traces. Usable from several threads.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  struct Span {
    std::string track, name, scan;
    double begin = 0, end = 0;  // seconds since the timeline began
  };

  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void add(Span span);
  // The dispatches of a run that began at `begin`, on the track "GPU", and its stages on the host.
  void add(const Profile& profile, double begin, const std::string& scan);
  std::vector<Span> spans() const;
  // Chrome/Perfetto trace JSON, times in microseconds.
  std::string trace() const;

 private:
  Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

// Times a stage: from construction until it goes out of scope. Without a timeline it does nothing.
class Stage {
 public:
  Stage(Timeline* timeline, std::string track, std::string name, std::string scan)
      : timeline_(timeline),
        span_{std::move(track), std::move(name), std::move(scan), timeline ? timeline->now() : 0, 0} {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() {
    if (!timeline_) return;
    span_.end = timeline_->now();
    timeline_->add(span_);
  }

 private:
  Timeline* timeline_;
  Timeline::Span span_;
};

}  // namespace gyrus
