// Many scans: bad ones between good ones, skipping what is done, being killed and started again.
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "e2e/e2e_support.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

constexpr int kSomeFailed = 9;

class ManyScans : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_model("model");
    for (int i = 0; i < kGood; ++i) {
      Volume scan = ramp_volume(16);
      scan.as<uint8_t>()[i] = static_cast<uint8_t>(200 + i);
      set_affine(scan, {});
      write_scan(good(i), scan);
    }
  }
  static std::string good(int i) { return "good" + std::to_string(i) + ".nii.gz"; }
  std::vector<std::string> command(std::vector<std::string> scans) const {
    const std::vector<std::string> options = {"--no-conform", "-m", "model", "--out-dir", "out"};
    scans.insert(scans.begin(), "segment");
    scans.insert(scans.end(), options.begin(), options.end());
    return scans;
  }
  std::vector<std::string> good_scans() const {
    std::vector<std::string> scans;
    for (int i = 0; i < kGood; ++i) scans.push_back(good(i));
    return scans;
  }
  std::map<std::string, std::vector<uint8_t>> files_in(const std::string& folder) const {
    std::map<std::string, std::vector<uint8_t>> files;
    for (const auto& entry : fs::directory_iterator(folder_ / folder))
      files[entry.path().filename().string()] = read_bytes(entry.path());
    return files;
  }

  static constexpr int kGood = 6;
};

TEST_F(ManyScans, BadOnesDoNotStopTheRest) {
  write("text.nii", to_bytes("hello"));
  Volume zeros({16, 16, 16}, VoxelType::U8);
  write_scan("zeros.nii", zeros);
  const std::vector<uint8_t> whole = read_bytes(folder_ / good(0));
  ByteVector cut(whole.size() / 2);
  std::memcpy(cut.data(), whole.data(), cut.size());
  write("cut.nii.gz", cut);
  std::vector<std::string> scans = good_scans();
  scans.insert(scans.begin() + 2, {"text.nii", "missing.nii"});
  scans.insert(scans.end(), {"zeros.nii", "cut.nii.gz", "model"});
  std::vector<std::string> arguments = command(scans);
  arguments.insert(arguments.end(), {"--json", "--outputs", "mask,report,picture", "--qc", "qc.html"});
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.status, kSomeFailed) << outcome.err;
  const json summary = json::parse(outcome.out);
  ASSERT_EQ(summary.size(), scans.size());
  int failed = 0;
  for (const json& scan : summary) failed += scan.contains("error");
  EXPECT_EQ(failed, 5);
  EXPECT_NE(outcome.err.find("5 of 11 scans failed"), std::string::npos) << outcome.err;
  for (int i = 0; i < kGood; ++i)
    for (const char* end : {"_labels.nii.gz", "_mask.nii.gz", "_report.json", "_picture.png"})
      EXPECT_TRUE(fs::exists(folder_ / "out" / ("good" + std::to_string(i) + end))) << i << end;
  EXPECT_EQ(files_in("out").size(), 4u * kGood);
  const std::string page = text_of(in_folder("qc.html"));
  for (const std::string& scan : scans) EXPECT_NE(page.find(scan), std::string::npos) << scan;
}

TEST_F(ManyScans, WhatIsDoneIsSkipped) {
  std::string list;
  for (const std::string& scan : good_scans()) list += scan + "\n";
  write("list.txt", to_bytes("# scans\n" + list));
  run_well(command({good(1), good(2)}));
  std::vector<std::string> arguments = command({});
  arguments.insert(arguments.end(), {"--list", "list.txt", "--json"});
  const json summary = json::parse(run_well(arguments).out);
  int skipped = 0;
  for (const json& scan : summary) skipped += scan.value("skipped", false);
  EXPECT_EQ(skipped, 2);
  EXPECT_EQ(files_in("out").size(), static_cast<size_t>(kGood));
}

TEST_F(ManyScans, KilledAndStartedAgainGivesTheSame) {
  run_well(command(good_scans()));
  const auto want = files_in("out");
  fs::remove_all(folder_ / "out");
  for (const useconds_t delay : {150000u, 300000u, 500000u}) {
    const pid_t child = start(command(good_scans()));
    usleep(delay);
    kill(child, SIGKILL);
    finish(child);
  }
  run_well(command(good_scans()));
  auto got = files_in("out");
  for (const auto& [name, bytes] : want) EXPECT_EQ(got[name], bytes) << name;
}

TEST_F(ManyScans, NamesMustDiffer) {
  fs::create_directory(folder_ / "other");
  fs::copy(folder_ / good(0), folder_ / "other" / good(0));
  expect_refused(command({good(0), "other/" + good(0)}), 2, "would write the same files");
  expect_refused({"segment", good(0), good(1), "-m", "model"}, 2, "--out-dir");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace gyrus::test
