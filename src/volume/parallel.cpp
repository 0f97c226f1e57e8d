#include "volume/parallel.h"

#include <algorithm>

#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
#define GYRUS_VOLUME_THREADS 0
#else
#define GYRUS_VOLUME_THREADS 1
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>
#endif

namespace gyrus {

#if GYRUS_VOLUME_THREADS

int worker_count() {
  static const int count = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  return count;
}

void parallel_ranges(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t pieces = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  const int64_t threads = std::min<int64_t>(pieces, worker_count());
  if (threads <= 1) {
    if (count > 0) body(0, count);
    return;
  }
  // More pieces than threads, so that a slow piece does not leave the other cores idle.
  const int64_t step = std::max(grain, (count + threads * 8 - 1) / (threads * 8));
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    try {
      for (int64_t begin = next.fetch_add(step); begin < count; begin = next.fetch_add(step))
        body(begin, std::min(begin + step, count));
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  for (int64_t t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
}

#else

int worker_count() { return 1; }

void parallel_ranges(int64_t count, int64_t, const std::function<void(int64_t, int64_t)>& body) {
  if (count > 0) body(0, count);
}

#endif

}  // namespace gyrus
