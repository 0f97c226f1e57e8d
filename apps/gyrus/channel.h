#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

namespace gyrus::cli {

// A bounded queue between threads: who fills it waits while it is full, who empties it waits while it is empty.
template <class T>
class Channel {
 public:
  explicit Channel(size_t capacity) : capacity_(capacity) {}

  void push(T value) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return values_.size() < capacity_; });
    values_.push_back(std::move(value));
    changed_.notify_all();
  }
  // Nothing when the channel is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !values_.empty() || closed_; });
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    changed_.notify_all();
    return value;
  }
  // No more will be pushed.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> values_;
  bool closed_ = false;
};

}  // namespace gyrus::cli
