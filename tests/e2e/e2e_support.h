#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/model_writer.h"
#include "support/test_data.h"
#include "volume/io.h"

// Running the built program as a user does.

namespace gyrus::test {

// Exit statuses (docs/cli.md).
inline constexpr int kInput = 2, kIo = 3, kModel = 4, kUnsupported = 5, kOverLimits = 6, kDevice = 7;

namespace fs = std::filesystem;

struct Outcome {
  int status = -1;  // 128 + N where signal N ended it
  std::string out, err;
};

inline std::string text_of(const fs::path& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  return {bytes.begin(), bytes.end()};
}

// Every test has a folder of its own, which is gone afterwards.
class Program : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gyrus_e2e_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("SOURCE_DATE_EPOCH", "1700000000", 1);  // results then are the same byte for byte
    setenv("GYRUS_DEVICE", "webgpu", 0);           // software Vulkan where there is no GPU, not the CPU itself
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }

  // Starts the program without waiting for it; standard output and error go to files.
  pid_t start(std::vector<std::string> arguments, const std::vector<std::string>& environment = {},
              const std::string& program = GYRUS_PROGRAM) const {
    arguments.insert(arguments.begin(), program);
    const pid_t child = fork();
    if (child != 0) return child;
    for (const auto& [name, stream] : {std::pair("stdout", STDOUT_FILENO), std::pair("stderr", STDERR_FILENO)})
      dup2(open(in_folder(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), stream);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    if (chdir(folder_.c_str()) != 0) _exit(126);
    execv(program.c_str(), argv.data());
    _exit(127);
  }

  Outcome finish(pid_t child) const {
    int status = 0;
    waitpid(child, &status, 0);
    Outcome outcome;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = text_of(in_folder("stdout"));
    outcome.err = text_of(in_folder("stderr"));
    return outcome;
  }

  Outcome run(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {},
              const std::string& program = GYRUS_PROGRAM) const {
    return finish(start(arguments, environment, program));
  }

  // Succeeds, or the test fails with what the program said.
  Outcome run_well(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) const {
    Outcome outcome = run(arguments, environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome;
  }

  // One line on standard error that starts with "gyrus: " and holds `part`, that exit status, and no file `output`.
  void expect_refused(const std::vector<std::string>& arguments, int status, const std::string& part,
                      const std::string& output = "", const std::vector<std::string>& environment = {}) const {
    Outcome outcome = run(arguments, environment);
    // That a model has no manifest, and that a network ran on the CPU before it failed, was said first.
    const auto first_line = [&] { return outcome.err.substr(0, outcome.err.find('\n')); };
    if (first_line().find("and no gyrus.json says") != std::string::npos) outcome.err.erase(0, first_line().size() + 1);
    if (outcome.err.rfind("gyrus: no GPU is used", 0) == 0) outcome.err.erase(0, first_line().size() + 1);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.err.rfind("gyrus: ", 0), 0u) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err << "wanted: " << part;
    EXPECT_TRUE(output.empty() || !fs::exists(folder_ / output)) << output << " was written all the same";
  }

  void write(const std::string& name, const ByteVector& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  // The files of a folder, writable whatever the others may be.
  void copy_files(const fs::path& from, const std::string& name) const {
    for (const auto& entry : fs::directory_iterator(from)) {
      const std::vector<uint8_t> bytes = read_bytes(entry.path());
      const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
      write(name + "/" + entry.path().filename().string(), ByteVector(data, data + bytes.size()));
    }
  }

  // A folder with a tiny network of three layers, 1 → 2 → 2 → 3 channels.
  void write_model(const std::string& name) const {
    write(name + "/model.json", json_bytes(make_layer_list(3)));
    write(name + "/model.pth", make_safetensors(make_meshnet_weights(3)));
    const std::string manifest = R"({"normalize": "minmax"})";  // without one it is said that there is none
    std::ofstream(folder_ / name / "gyrus.json") << manifest;
  }

  // A volume of that side whose voxels differ.
  Volume ramp_volume(int64_t side = 16) const {
    Volume volume({side, side, side}, VoxelType::U8);
    for (int64_t i = 0; i < volume.voxels(); ++i) volume.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7 % 251);
    return volume;
  }
  void write_scan(const std::string& name, const Volume& volume) const { write_volume(in_folder(name), volume); }

  fs::path folder_;
};

}  // namespace gyrus::test
