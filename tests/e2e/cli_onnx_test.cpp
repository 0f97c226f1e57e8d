// `gyrus segment` with networks of one's own: ONNX and a manifest.
#include <nlohmann/json.hpp>

#include "e2e/e2e_support.h"
#include "support/onnx_writer.h"
#include "volume/provenance.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

class Onnx : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    Volume scan = ramp_volume(12);
    set_affine(scan, {});
    write_scan("scan.nii.gz", scan);
    describe(R"({"normalize": "minmax", "patch": 8, "labels": ["background", "bright", "glow"], "allow_empty": true})");
  }
  // Scores 0, x - 0.3 and 2 x - 1 of every voxel.
  void describe(const std::string& manifest, const std::string& folder = "own") const {
    using namespace onnx_file;
    const std::string file = model(node("Conv", {"x", "w", "b"}, {"y"}) +
                                   initializer(tensor("w", Float, {3, 1, 1, 1, 1}, std::vector<float>{0, 1, 2})) +
                                   initializer(tensor("b", Float, {3}, std::vector<float>{0, -0.3f, -1})) +
                                   input("x", Float, {1, 1, -1, -1, -1}) + output("y"));
    write(folder + "/net.onnx", to_bytes(file));
    write(folder + "/gyrus.json", to_bytes(manifest));
  }
};

TEST_F(Onnx, AllOfSegmentWorksWithIt) {
  const std::vector<std::string> command = {
      "segment",   "scan.nii.gz", "-m",        "own",
      "--out-dir", "out",         "--outputs", "mask,brain,probabilities,report,picture,tables"};
  std::vector<std::string> dry = command;
  dry.emplace_back("--dry-run");
  EXPECT_NE(run_well(dry).out.find("out/scan_probability_glow.nii.gz"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  std::vector<std::string> all = command;
  all.insert(all.end(), {"--qc", "qc.html", "--table", "all.csv", "--json"});
  const json summary = json::parse(run_well(all).out)[0];
  EXPECT_EQ(summary["model"], "own");
  EXPECT_EQ(summary["labels"][2]["name"], "glow");
  EXPECT_GT(summary["labels"][1]["voxels"], 0);
  EXPECT_GT(summary["labels"][2]["voxels"], 0);
  EXPECT_EQ(summary["notices"].dump().find("a brain has"), std::string::npos);
  const std::optional<Provenance> by = parse_provenance(volume_comment(in_folder("out/scan_labels.nii.gz")));
  ASSERT_TRUE(by.has_value());
  EXPECT_EQ(by->weights.size(), 64u);
  EXPECT_EQ(by->options.at("windows"), "[8,8,8], overlap 0.25 0.25 0.25");
  for (const char* file : {"mask.nii.gz", "brain.nii.gz", "probability_bright.nii.gz", "report.json", "picture.png"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / ("scan_" + std::string(file)))) << file;
  EXPECT_NE(run_well(command).err.find("is done already"), std::string::npos);
  // Another manifest makes other labels.
  describe(R"({"normalize": "minmax", "patch": 8, "overlap": 0.5, "labels": ["background", "bright", "glow"]})");
  const Outcome clash = run(command);
  EXPECT_EQ(clash.status, 9);
  EXPECT_NE(clash.err.find("windows"), std::string::npos) << clash.err;
}

TEST_F(Onnx, BidsAndInfoKnowIt) {
  fs::create_directories(folder_ / "study/sub-01/anat");
  fs::copy_file(folder_ / "scan.nii.gz", folder_ / "study/sub-01/anat/sub-01_T1w.nii.gz");
  write("study/dataset_description.json", to_bytes(R"({"Name": "s", "BIDSVersion": "1.8.0"})"));
  run_well({"bids", "study", "out", "participant", "-m", "own/net.onnx"});
  bool found = false;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "out"))
    found = found || entry.path().filename().string().find("seg-net") != std::string::npos;
  EXPECT_TRUE(found);
  EXPECT_NE(run_well({"info", "own", "--size", "16"}).out.find("ONNX"), std::string::npos);
  EXPECT_NE(run_well({"models", "describe", "own"}).out.find("logits"), std::string::npos);
  expect_refused({"tune", "own"}, 5, "is an ONNX network");
}

TEST_F(Onnx, ErrorsComeBeforeTheGpu) {
  const auto refused = [&](const std::string& says, int status = 4) {
    expect_refused({"segment", "scan.nii.gz", "-m", "own", "-o", "l.nii.gz", "--device", "no such device"}, status,
                   says, "l.nii.gz");
  };
  describe(R"({"normalize": "minmax", "patch": [8, 8]})");
  refused("\"patch\" is neither");
  describe(R"({"normalize": "minmax", "channels": ["T1w", "T2w"]})");
  refused("\"channels\" are 2, but the model takes float[1,1,");
  fs::remove(folder_ / "own/gyrus.json");
  refused("write a gyrus.json beside it");
}

TEST_F(Onnx, AManifestIsBegunFromTheFile) {
  fs::remove(folder_ / "own/gyrus.json");
  const Outcome wrote = run_well({"models", "describe", "own", "--write"});
  EXPECT_EQ(wrote.out, "own/gyrus.json\n");
  EXPECT_NE(wrote.err.find("\"normalize\" is to be filled in"), std::string::npos) << wrote.err;
  expect_refused({"segment", "scan.nii.gz", "-m", "own", "-o", "none.nii.gz"}, 4, "\"?\"", "none.nii.gz");
  std::string text = text_of(folder_ / "own/gyrus.json");
  text.replace(text.find("\"?\""), 3, "\"minmax\"");
  describe(text);
  run_well({"segment", "scan.nii.gz", "-m", "own", "-o", "labels.nii.gz", "--allow-empty"});
  expect_refused({"models", "describe", "own", "--write"}, 2, "there already");
}

// All scans that a result was made of are known again, not only the first.
TEST_F(Onnx, AnotherSecondChannelIsNotTheSameScan) {
  copy_files(fs::path(GYRUS_SOURCE_DIR) / "tests/data/unet3d", "unet");
  const std::vector<std::string> segment = {"segment", "unet/scan_0000.nii.gz", "-m", "unet", "--out-dir", "out",
                                            "--json"};
  run_well(segment);
  EXPECT_TRUE(json::parse(run_well(segment).out).at(0).value("skipped", false));
  Volume other = read_volume(in_folder("unet/scan_0001.nii.gz"));
  other.data[0] ^= std::byte{1};
  write_scan("unet/scan_0001.nii.gz", other);
  const Outcome changed = run(segment);
  EXPECT_EQ(changed.status, 9);
  EXPECT_NE(changed.err.find("another content of the scan channel_1"), std::string::npos) << changed.err;
}

TEST_F(Onnx, ChannelsAreGivenOrNamed) {
  copy_files(fs::path(GYRUS_SOURCE_DIR) / "tests/data/unet3d", "unet");
  fs::rename(folder_ / "unet/scan_0000.nii.gz", folder_ / "t1.nii.gz");
  fs::rename(folder_ / "unet/scan_0001.nii.gz", folder_ / "ct.nii.gz");
  run_well({"segment", "t1.nii.gz", "--channel", "ct.nii.gz", "-m", "unet", "-o", "labels.nii.gz"});
  EXPECT_EQ(read_volume(in_folder("labels.nii.gz")).data, read_volume(in_folder("unet/labels.nii.gz")).data);
  expect_refused({"segment", "t1.nii.gz", "-m", "unet", "-o", "none.nii.gz"}, 2, "2 scans of a subject (T1w, CT)");
  expect_refused({"segment", "scan.nii.gz", "--channel", "ct.nii.gz", "-m", "own", "-o", "none.nii.gz"}, 2,
                 "looks at 1 scan");
}

}  // namespace
}  // namespace gyrus::test
