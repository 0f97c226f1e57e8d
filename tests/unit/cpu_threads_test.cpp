#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cpu/machine.h"
#include "cpu/thread_pool.h"
#include "support/test_folder.h"

namespace gyrus::cpu {
namespace {

TEST(ThreadPool, CallsEveryIndexOnceAndReturnsWhenAllAreDone) {
  for (const int threads : {1, 2, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<int> calls(static_cast<size_t>(count), 0);
      pool.parallel_for(count, [&](int64_t i, int thread) {
        ASSERT_LT(thread, threads);
        ++calls[static_cast<size_t>(i)];
      });
      for (const int each : calls) ASSERT_EQ(each, 1);
    }
  }
}

TEST(ThreadPool, ManyShortLoopsFollowEachOther) {
  ThreadPool pool(4);
  int64_t sum = 0;
  for (int round = 0; round < 5000; ++round) {
    std::atomic<int64_t> own{0};
    pool.parallel_for(5, [&](int64_t i) { own += i; });
    sum += own;
  }
  EXPECT_EQ(sum, 5000 * 10);
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.parallel_for(100,
                                 [](int64_t i) {
                                   if (i == 42) throw std::runtime_error("42");
                                 }),
               std::runtime_error);
  std::atomic<int> calls{0};
  pool.parallel_for(10, [&](int64_t) { ++calls; });
  EXPECT_EQ(calls, 10);
}

TEST(ThreadPool, ALoopInsideALoopRuns) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  pool.parallel_for(6, [&](int64_t) { pool.parallel_for(5, [&](int64_t) { ++calls; }); });
  EXPECT_EQ(calls, 30);
}

// Only the outer one tells how far a step is.
TEST(ThreadPool, ALoopInsideALoopIsNotHeard) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    double last = 0;
    const LoopWatcher watcher([&](double fraction) {
      EXPECT_GE(fraction, last) << threads;
      last = fraction;
    });
    pool.parallel_for(8, [&](int64_t) {
      pool.parallel_for(4, [&](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    });
    EXPECT_GT(last, 0) << threads;
  }
}

// A file under a made-up root, with its folders.
void put(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

using MachineLimits = test::InFolder;

TEST_F(MachineLimits, HalfACoreOfTheSecondKindIsOneThread) {
  put(folder_ / "proc/self/cgroup", "0::/user/job\n");
  put(folder_ / "sys/fs/cgroup/user/cpu.max", "50000 100000\n");
  put(folder_ / "sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_threads(folder_), 1);
}

TEST_F(MachineLimits, TimeOfTheFirstKindCounts) {
  put(folder_ / "proc/self/cgroup", "4:cpu,cpuacct:/job\n2:memory:/job\n");
  put(folder_ / "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
  put(folder_ / "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_threads(folder_), 1);
}

TEST_F(MachineLimits, WithoutLimitsThereAreCores) {
  put(folder_ / "proc/self/cgroup", "0::/\n");
  EXPECT_GE(usable_threads(folder_), 1);
  EXPECT_EQ(usable_memory(folder_), ~uint64_t{0});
}

TEST_F(MachineLimits, MemoryIsTheLeastOfSystemAndCgroups) {
  put(folder_ / "proc/self/cgroup", "0::/job/step\n");
  put(folder_ / "proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n");
  EXPECT_EQ(usable_memory(folder_), 4000000ull * 1024);
  put(folder_ / "sys/fs/cgroup/job/memory.max", "600000000\n");
  put(folder_ / "sys/fs/cgroup/job/memory.current", "250000000\n");
  put(folder_ / "sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 150000000\n");
  EXPECT_EQ(usable_memory(folder_), 500000000u);
  put(folder_ / "sys/fs/cgroup/job/step/memory.max", "max\n");
  EXPECT_EQ(usable_memory(folder_), 500000000u);
}

TEST_F(MachineLimits, MemoryOfTheFirstKindCounts) {
  put(folder_ / "proc/self/cgroup", "4:memory:/on/the/host\n");
  put(folder_ / "sys/fs/cgroup/memory/memory.limit_in_bytes", "600000000\n");
  put(folder_ / "sys/fs/cgroup/memory/memory.usage_in_bytes", "100000000\n");
  EXPECT_EQ(usable_memory(folder_), 500000000u);
}

}  // namespace
}  // namespace gyrus::cpu
