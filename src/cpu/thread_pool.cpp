#include "cpu/thread_pool.h"

#include <chrono>

#include "cpu/machine.h"

#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
#define GYRUS_CPU_THREADS 0
#else
#define GYRUS_CPU_THREADS 1
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>
#endif

namespace gyrus::cpu {

namespace {
thread_local LoopWatcher* watching = nullptr;
}

LoopWatcher::LoopWatcher(std::function<void(double)> told) : told_(std::move(told)), before_(watching) {
  watching = this;
}
LoopWatcher::~LoopWatcher() { watching = before_; }

void LoopWatcher::look(int64_t index, int64_t count) {
  if (!watching) return;
  constexpr int64_t kPause = 50;  // ms
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  const int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  if (now - watching->last_ < kPause) return;
  watching->last_ = now;
  watching->told_(static_cast<double>(index) / static_cast<double>(count));
}

#if GYRUS_CPU_THREADS

// One call of parallel_for; lives on the caller's stack.
struct ThreadPool::Loop {
  int64_t count = 0;
  Call call = nullptr;
  void* context = nullptr;
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;

  void work(int thread) {
    try {
      for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        if (thread == 0) LoopWatcher::look(i, count);
        call(context, i, thread);
      }
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
      next = count;
    }
  }
};

struct ThreadPool::Workers {
  std::mutex turn;  // whose loop it is
  std::mutex mutex;
  std::condition_variable begin, end;
  Loop* loop = nullptr;            // guarded by mutex
  int busy = 0;                    // workers inside `loop`; guarded by mutex
  bool stopping = false;           // guarded by mutex
  std::atomic<uint64_t> round{0};  // counts loops; a worker spins on it for a while before it sleeps
  std::vector<std::thread> threads;

  // Loops of a network follow each other within microseconds; waking a sleeping thread takes some fifty.
  static constexpr int kSpins = 4000;

  void worker(int thread) {
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && round.load(std::memory_order_acquire) == seen; ++i) std::this_thread::yield();
      Loop* mine = nullptr;
      {
        std::unique_lock lock(mutex);
        begin.wait(lock, [&] { return stopping || round.load(std::memory_order_relaxed) != seen; });
        if (stopping) return;
        seen = round.load(std::memory_order_relaxed);
        if (!loop) continue;  // it was over before this thread woke
        mine = loop;
        ++busy;
      }
      mine->work(thread);
      {
        const std::lock_guard lock(mutex);
        --busy;
      }
      end.notify_one();
    }
  }

  void run(Loop& mine) {
    {
      const std::lock_guard lock(mutex);
      loop = &mine;
      round.fetch_add(1, std::memory_order_release);
    }
    begin.notify_all();
    mine.work(0);
    std::unique_lock lock(mutex);
    loop = nullptr;  // nobody joins from here on
    end.wait(lock, [&] { return busy == 0; });
  }
};

namespace {

// The pool whose loop this thread is in: a loop inside it runs on this thread alone.
thread_local const void* inside = nullptr;

class Inside {
 public:
  explicit Inside(const void* pool) : before_(std::exchange(inside, pool)) {}
  ~Inside() { inside = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const void* before_;
};

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads > 0 ? threads : usable_threads()) {
  if (threads_ <= 1) return;
  workers_ = std::make_unique<Workers>();
  for (int t = 1; t < threads_; ++t) {
    try {
      workers_->threads.emplace_back([this, t] {
        const Inside here(this);
        workers_->worker(t);
      });
    } catch (const std::system_error&) {  // the system allows no more of them
      break;
    }
  }
  threads_ = static_cast<int>(workers_->threads.size()) + 1;
}

ThreadPool::~ThreadPool() {
  if (!workers_) return;
  {
    const std::lock_guard lock(workers_->mutex);
    workers_->stopping = true;
    workers_->round.fetch_add(1, std::memory_order_release);
  }
  workers_->begin.notify_all();
  for (std::thread& thread : workers_->threads) thread.join();
}

void ThreadPool::run(int64_t count, Call call, void* context) {
  if (inside == this) {  // the loop around this one is watched
    for (int64_t i = 0; i < count; ++i) call(context, i, 0);
    return;
  }
  if (count <= 0) return;
  if (count == 1) {  // loops inside it may be shared out
    LoopWatcher::look(0, 1);
    return call(context, 0, 0);
  }
  const Inside here(this);
  if (threads_ <= 1) {
    for (int64_t i = 0; i < count; ++i) {
      LoopWatcher::look(i, count);
      call(context, i, 0);
    }
    return;
  }
  const std::lock_guard turn(workers_->turn);
  Loop loop;
  loop.count = count;
  loop.call = call;
  loop.context = context;
  workers_->run(loop);
  if (loop.error) std::rethrow_exception(loop.error);
}

#else

struct ThreadPool::Loop {};
struct ThreadPool::Workers {};
ThreadPool::ThreadPool(int) {}
ThreadPool::~ThreadPool() = default;

void ThreadPool::run(int64_t count, Call call, void* context) {
  for (int64_t i = 0; i < count; ++i) {
    LoopWatcher::look(i, count);
    call(context, i, 0);
  }
}

#endif

}  // namespace gyrus::cpu
