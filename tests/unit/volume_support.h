#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "core/error.h"
#include "volume/io.h"

// What the tests of src/volume share.

namespace gyrus::test {

// The folder of public test data, or empty where it is not there.
inline std::string data_folder() {
  const char* given = std::getenv("GYRUS_TEST_DATA");
  const std::string folder = given != nullptr ? given : GYRUS_SOURCE_DIR "/../shared/data";
  return std::filesystem::is_directory(folder) ? folder : std::string();
}

#define GYRUS_NEED_DATA(folder)                   \
  const std::string folder = test::data_folder(); \
  if (folder.empty()) GTEST_SKIP() << "no public test data at ../shared/data or GYRUS_TEST_DATA"

// A folder of its own for each test, removed afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            cat("gyrus_", info->test_suite_name(), "_", info->name(), "_", std::rand(), "_", ::getpid());
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Expects `action` to throw gyrus::Error of that code with one line that contains `part`.
inline void expect_error(ErrorCode code, const std::string& part, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with \"" << part << "\"";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.rfind("[", 0), 0u) << message;
  }
}

// Numbers 0, 1, 2 … modulo `modulus` on a grid with a plain affine.
inline Volume counting_volume(Dims dims, VoxelType type, int modulus = 100) {
  Volume volume(dims, type);
  visit_elements(volume, [&](const auto* data) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
    for (int64_t i = 0; i < volume.voxels(); ++i) volume.as<T>()[i] = static_cast<T>(i % modulus);
  });
  Affine affine;
  affine(0, 3) = -10;
  set_affine(volume, affine);
  volume.name = "test";
  return volume;
}

}  // namespace gyrus::test
