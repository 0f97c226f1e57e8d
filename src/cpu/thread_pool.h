#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

// Threads that share out the indices of loops. Which thread takes which index is left open, so a body must give the
// same for an index whoever calls it: then results do not depend on the number of threads. Nothing that is added up may
// be cut by that number.

namespace gyrus::cpu {

class ThreadPool {
 public:
  // 0: as many as this process may use at once (machine.h). In a build without threads there is one.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The caller of parallel_for among them.
  int threads() const { return threads_; }

  // Calls body(index) or body(index, thread) once for every index from 0 to count - 1 and returns when all are done;
  // `thread` is 0 … threads() - 1, for scratch memory. Rethrows the first exception; the other indices may then be left
  // out. One loop at a time: a body that calls parallel_for, or a second thread, waits for its turn or runs alone.
  template <class Body>
  void parallel_for(int64_t count, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run(
        count,
        [](void* context, int64_t index, int thread) {
          Plain& call = *static_cast<Plain*>(context);
          if constexpr (std::is_invocable_v<Plain&, int64_t, int>)
            call(index, thread);
          else
            call(index);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

 private:
  using Call = void (*)(void* context, int64_t index, int thread);
  struct Loop;
  struct Workers;
  void run(int64_t count, Call call, void* context);

  int threads_ = 1;
  std::unique_ptr<Workers> workers_;
};

// While it lives, loops that this thread calls tell it the fraction of their indices that have begun: between them, on
// this thread, some 20 times a second. What it throws ends the loop.
class LoopWatcher {
 public:
  explicit LoopWatcher(std::function<void(double fraction)> told);
  ~LoopWatcher();
  LoopWatcher(const LoopWatcher&) = delete;
  LoopWatcher& operator=(const LoopWatcher&) = delete;

  // Called by loops.
  static void look(int64_t index, int64_t count);

 private:
  std::function<void(double)> told_;
  LoopWatcher* before_;
  int64_t last_ = 0;  // ms
};

}  // namespace gyrus::cpu
