// gyrus train as a user runs it.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "e2e_support.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

class Train : public Program {
 protected:
  void write_config(const std::string& name, int steps, const std::string& more = "") const {
    write(name, to_bytes(R"({"classes": ["background", "skull", "CSF", "grey matter", "white matter", "ventricles"],
      "network": {"channels": 4, "dilations": [1, 2]},
      "data": {"phantoms": {"count": 3, "sizes": 20, "noise": [1, 6]}, "patch": 16},
      "validation": {"phantoms": {"count": 1, "seed": 99, "sizes": 20}, "every": 4},
      "export": ["onnx", "safetensors"], "optimizer": {"rate": 0.01}, "checkpoint_every": 3, "steps": )" +
                         std::to_string(steps) + more + "}"));
  }

  // Step and loss of every line that has one.
  std::vector<std::pair<int, std::string>> losses(const std::string& folder) const {
    std::istringstream lines(text_of(in_folder(folder + "/log.jsonl")));
    std::vector<std::pair<int, std::string>> all;
    for (std::string line; std::getline(lines, line);)
      if (const json entry = json::parse(line, nullptr, false); entry.is_object() && entry.contains("loss"))
        all.emplace_back(entry["step"].get<int>(), entry["loss"].dump());
    return all;
  }
};

TEST_F(Train, KilledAndResumedItHasTheSameLosses) {
  write_config("c.json", 10);
  run_well({"train", "c.json", "--out", "whole", "--quiet"});
  ASSERT_EQ(losses("whole").size(), 10u);

  write_config("long.json", 2000);
  const pid_t child = start({"train", "long.json", "--out", "cut", "--quiet"});
  for (int wait = 0; wait < 600 && (!fs::exists(folder_ / "cut/log.jsonl") || losses("cut").size() < 5); ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(child, SIGKILL);
  EXPECT_EQ(finish(child).status, 128 + SIGKILL);
  ASSERT_GE(losses("cut").size(), 5u);

  expect_refused({"train", "c.json", "--out", "cut"}, kInput, "go on with --resume, or name another folder");
  const json checkpoint = json::parse(text_of(in_folder("cut/checkpoint.json")));
  write_config("c.json", std::max(10, checkpoint.at("step").get<int>() + 3));
  run_well({"train", "c.json", "--out", "cut", "--resume", "--quiet"});
  const auto whole = losses("whole"), cut = losses("cut");
  ASSERT_GE(cut.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(cut[i], whole[i]);
}

TEST_F(Train, InterruptedItLeavesACheckpoint) {
  write_config("c.json", 2000);
  const pid_t child = start({"train", "c.json", "--out", "out"});
  for (int wait = 0; wait < 600 && (!fs::exists(folder_ / "out/log.jsonl") || losses("out").size() < 2); ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(child, SIGINT);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.status, 130);
  EXPECT_NE(outcome.err.find("--resume goes on from there"), std::string::npos) << outcome.err;
  const json checkpoint = json::parse(text_of(in_folder("out/checkpoint.json")));
  EXPECT_EQ(checkpoint.at("step").get<size_t>(), losses("out").size());
}

TEST_F(Train, WritesAModelThatSegments) {
  write_config("c.json", 6);
  const json result = json::parse(run_well({"train", "c.json", "--out", "out", "--json"}).out);
  EXPECT_EQ(result.at("steps"), 6);
  EXPECT_EQ(result.at("labels").size(), 6u);
  for (const char* file : {"curves.png", "sample.png", "train.html", "log.js", "model.onnx", "weights.safetensors"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / file)) << file;
  run_well({"demo", "--size", "32", "--files", "--out", "demo", "--quiet"});
  run_well({"segment", "demo/head.nii.gz", "--no-conform", "-m", "out/model", "-o", "labels.nii.gz", "--allow-empty",
            "--quiet"});
  const json described = json::parse(run_well({"models", "describe", "out/model", "--json"}).out);
  EXPECT_EQ(described.dump().find("ventricles") != std::string::npos, true) << described;
  // The same network as ONNX gives the same labels.
  fs::create_directories(folder_ / "onnx");
  fs::copy_file(folder_ / "out/model.onnx", folder_ / "onnx/model.onnx");
  write("onnx/gyrus.json", to_bytes(R"({"normalize": "quantile:0.02,0.98"})"));
  run_well(
      {"segment", "demo/head.nii.gz", "--no-conform", "-m", "onnx", "-o", "onnx.nii.gz", "--allow-empty", "--quiet"});
  const Volume a = read_volume(in_folder("labels.nii.gz")), b = read_volume(in_folder("onnx.nii.gz"));
  int64_t different = 0;
  for (int64_t i = 0; i < a.voxels(); ++i) different += value_at(a, i) != value_at(b, i);
  EXPECT_LE(different, 2) << "ties between classes may fall the other way";
}

TEST_F(Train, RefusesBeforeAnythingIsWritten) {
  write_config("unknown.json", 4, R"(, "colour": "red")");
  expect_refused({"train", "unknown.json", "--out", "out"}, kInput, "colour: is not known", "out");
  write_config("pairs.json", 4);
  write("data.json", to_bytes(R"({"classes": 2, "network": {}, "steps": 1,
    "data": {"pairs": [{"image": "a.nii", "labels": "b.nii"}]}})"));
  expect_refused({"train", "data.json", "--out", "out"}, kIo, "b.nii", "out");
  expect_refused({"train", "absent.json", "--out", "out"}, kIo, "absent.json", "out");
  expect_refused({"train", "pairs.json", "--out", "out", "--resume"}, kInput, "holds no checkpoint", "out");
}

TEST_F(Train, DryRunSaysWhatAStepTakes) {
  write_config("c.json", 4);
  const json outline = json::parse(run_well({"train", "c.json", "--dry-run", "--json"}).out);
  EXPECT_EQ(outline.at("subjects"), 3);
  EXPECT_EQ(outline.at("extents"), json::array({16, 16, 16}));
  // 1→4 and 4→4 channels with 27 taps, two norms of 4, 4→6 with biases.
  EXPECT_EQ(outline.at("parameters"), 27 * 4 + 27 * 16 + 2 * 8 + 24 + 6);
  EXPECT_GT(outline.at("peak_bytes").get<int64_t>(), outline.at("state_bytes").get<int64_t>());
  EXPECT_FALSE(fs::exists(folder_ / "trained"));
}

// A head for skull stripping: a ball of two labels in a larger ball.
TEST_F(Train, LabelsOfAHead) {
  Volume scan({24, 24, 24}, VoxelType::U8), labels({24, 24, 24}, VoxelType::U8);
  for (int64_t z = 0; z < 24; ++z)
    for (int64_t y = 0; y < 24; ++y)
      for (int64_t x = 0; x < 24; ++x) {
        const auto r2 = (x - 12) * (x - 12) + (y - 12) * (y - 12) + (z - 12) * (z - 12);
        const int64_t i = scan.index(x, y, z);
        scan.as<uint8_t>()[i] = r2 < 25 ? 100 : r2 < 64 ? 5 : r2 < 100 ? 200 : 0;
        labels.as<uint8_t>()[i] = r2 < 25 ? (x < 12 ? 1 : 2) : 0;
      }
  write_volume(in_folder("scan.nii"), scan);
  write_volume(in_folder("brain.nii"), labels);
  const Outcome outcome =
      run_well({"labels", "scan.nii", "brain.nii", "-o", "head.nii", "--clusters", "1", "--close", "2", "--grow", "1"});
  EXPECT_EQ(outcome.out, "\"map\": {\"0\": [0, 4, 5], \"1\": [1, 2, 3]}\n");
  const Volume head = read_volume(in_folder("head.nii"));
  EXPECT_EQ(value_at(head, head.index(0, 0, 0)), 0);     // air
  EXPECT_EQ(value_at(head, head.index(10, 12, 12)), 1);  // as it was
  EXPECT_EQ(value_at(head, head.index(17, 12, 12)), 3);  // a millimetre around it
  EXPECT_EQ(value_at(head, head.index(19, 12, 12)), 4);  // dark, but enclosed
  EXPECT_EQ(value_at(head, head.index(21, 12, 12)), 5);  // the bright shell

  EXPECT_EQ(run_well({"labels", "scan.nii", "brain.nii", "-o", "from.nii", "--clusters", "1", "--first", "18"}).out,
            "\"map\": {\"0\": [0, 19, 20], \"1\": [1, 2, 18]}\n");
  expect_refused({"labels", "scan.nii", "brain.nii", "-o", "never.nii", "--first", "2"}, kInput,
                 "new ones begin with 2", "never.nii");
  // The two labels are alike and become one tissue, beside the darker fluid.
  const Outcome joined = run_well({"labels", "scan.nii", "brain.nii", "-o", "tissues.nii", "--clusters", "1", "--close",
                                   "2", "--grow", "1", "--tissues", "2"});
  EXPECT_EQ(joined.out, "\"map\": {\"0\": [0, 3, 4], \"1\": [1, 2]}\n");
  const Volume tissues = read_volume(in_folder("tissues.nii"));
  EXPECT_EQ(value_at(tissues, tissues.index(10, 12, 12)), 2);
  EXPECT_EQ(value_at(tissues, tissues.index(14, 12, 12)), 2);
  EXPECT_EQ(value_at(tissues, tissues.index(17, 12, 12)), 1);
}

}  // namespace
}  // namespace gyrus::test
