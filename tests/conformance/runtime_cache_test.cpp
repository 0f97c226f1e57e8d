// Pipelines kept on disk: what is stored is found again, what is damaged never is.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "conformance/runtime_plans.h"
#include "runtime/blob_cache.h"

namespace gyrus::testing {
namespace {

namespace fs = std::filesystem;

class RuntimeCache : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (fs::path(::testing::TempDir()) / ("gyrus_cache_" + std::to_string(getpid()) + "_" +
                                                 ::testing::UnitTest::GetInstance()->current_test_info()->name()))
                  .string();
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (!fs::exists(folder_)) return found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }

  static std::string take(BlobCache& cache, const std::string& key) {
    std::string blob(cache.load(key, nullptr, 0), '\0');
    if (blob.empty()) return {};
    EXPECT_EQ(cache.load(key, blob.data(), blob.size()), blob.size());
    return blob;
  }

  // The chain plan through a new device that keeps its pipelines in the folder.
  void run_chain() const {
    DeviceOptions options = test_options();
    options.pipeline_cache = folder_;
    const Device device = open_device(options);
    Executor executor(device, chain_plan());
    const RunResult result = executor.run({{"x", ramp(1000)}});
    for (int64_t i = 0; i < 1000; ++i)
      ASSERT_EQ(result.outputs.at("y").as<float>()[i], 3 * (2 * static_cast<float>(i) + 1) - 1);
  }

  std::string folder_;
};

TEST_F(RuntimeCache, GivesBackWhatWasStored) {
  const std::string blob("a\0b", 3);
  {
    BlobCache cache(folder_, 1 << 20);
    EXPECT_EQ(take(cache, "key"), "");
    cache.store("key", blob.data(), blob.size());
    cache.store("other", "x", 1);
  }
  BlobCache later(folder_, 1 << 20);
  EXPECT_EQ(take(later, "key"), blob);
  EXPECT_EQ(take(later, "other"), "x");
  EXPECT_EQ(take(later, "ke"), "");
  EXPECT_EQ(later.hits(), 2u);
}

TEST_F(RuntimeCache, BothAnswersAgreeThoughTheFileGoes) {
  BlobCache cache(folder_, 1 << 20);
  cache.store("key", "blob", 4);
  ASSERT_EQ(cache.load("key", nullptr, 0), 4u);
  fs::remove_all(folder_);
  char blob[4];
  EXPECT_EQ(cache.load("key", blob, 4), 4u);
  EXPECT_EQ(std::string(blob, 4), "blob");
  EXPECT_EQ(cache.load("key", nullptr, 0), 0u);
}

TEST_F(RuntimeCache, DamagedFilesCountAsAbsent) {
  const std::string blob(1000, 'q');
  for (const auto& [at, what] : std::vector<std::pair<std::streamoff, const char*>>{
           {0, "magic"}, {9, "size of the key"}, {17, "size of the blob"}, {33, "key"}, {500, "blob"}}) {
    SCOPED_TRACE(what);
    BlobCache cache(folder_, 1 << 20);
    cache.store("key", blob.data(), blob.size());
    ASSERT_EQ(files().size(), 1u);
    {
      std::fstream file(files()[0], std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(at);
      file.put('\x7f');
    }
    EXPECT_EQ(take(cache, "key"), "");
    EXPECT_TRUE(files().empty()) << "a damaged file is removed";
  }
  for (uintmax_t length : {0u, 5u, 34u, 500u}) {
    SCOPED_TRACE(length);
    BlobCache cache(folder_, 1 << 20);
    cache.store("key", blob.data(), blob.size());
    fs::resize_file(files().at(0), length);
    EXPECT_EQ(take(cache, "key"), "");
  }
}

TEST_F(RuntimeCache, StaysBelowItsBoundAndDropsTheOldest) {
  BlobCache cache(folder_, 20000);
  const std::string blob(1000, 'b');
  for (int i = 0; i < 60; ++i) cache.store(std::to_string(i), blob.data(), blob.size());
  uintmax_t total = 0;
  for (const fs::path& file : files()) total += fs::file_size(file);
  EXPECT_LE(total, 20000u);
  EXPECT_EQ(take(cache, "59"), blob);
  EXPECT_EQ(take(cache, "0"), "");
  cache.store("too large", std::string(30000, 'c').data(), 30000);
  EXPECT_EQ(take(cache, "too large"), "");
}

TEST_F(RuntimeCache, AFolderThatCannotBeMadeIsNoError) {
  std::ofstream(folder_) << "a file in the way";
  BlobCache cache(folder_ + "/inside", 1 << 20);
  cache.store("key", "blob", 4);
  EXPECT_EQ(take(cache, "key"), "");
}

TEST_F(RuntimeCache, ManyThreadsMayUseIt) {
  BlobCache cache(folder_, 1 << 20);
  const auto blob_of = [](int key) {
    return std::string(100 + static_cast<size_t>(key), static_cast<char>('a' + key));
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = std::to_string(i % 10), blob = blob_of(i % 10);
        cache.store(key, blob.data(), blob.size());
        std::string found(blob.size(), '\0');
        const size_t size = cache.load(key, found.data(), found.size());
        if (size > 0) {
          EXPECT_EQ(found, blob) << t;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cache.hits(), 0u);
  for (int key = 0; key < 10; ++key) EXPECT_EQ(take(cache, std::to_string(key)), blob_of(key));
}

TEST_F(RuntimeCache, ASecondDeviceFindsThePipelinesOfTheFirst) {
  run_chain();
  const uint64_t stored = blob_cache(folder_).stores();
  EXPECT_GT(stored, 0u) << "Dawn stored nothing";
  const uint64_t before = blob_cache(folder_).hits();
  run_chain();
  EXPECT_GT(blob_cache(folder_).hits(), before);
}

TEST_F(RuntimeCache, DamagedPipelinesAreCompiledAgain) {
  run_chain();
  ASSERT_FALSE(files().empty());
  for (const fs::path& file : files()) {
    std::fstream damage(file, std::ios::binary | std::ios::in | std::ios::out);
    damage.seekp(static_cast<std::streamoff>(fs::file_size(file) - 20));
    damage << "damage";
  }
  const uint64_t hits = blob_cache(folder_).hits(), stores = blob_cache(folder_).stores();
  run_chain();
  EXPECT_EQ(blob_cache(folder_).hits(), hits) << "something damaged was used";
  EXPECT_GT(blob_cache(folder_).stores(), stores);
}

TEST_F(RuntimeCache, TheEnvironmentTurnsItOff) {
  setenv("GYRUS_NO_CACHE", "1", 1);
  EXPECT_EQ(cache_folder("pipelines"), "");
  unsetenv("GYRUS_NO_CACHE");
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  EXPECT_EQ(cache_folder("pipelines"), folder_ + "/gyrus/pipelines");
  unsetenv("XDG_CACHE_HOME");
  setenv("GYRUS_NO_CACHE", "1", 1);
}

}  // namespace
}  // namespace gyrus::testing
