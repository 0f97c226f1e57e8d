// What people stumbled over, each once.
#include "core/files.h"
#include "e2e/e2e_support.h"
#include "support/onnx_writer.h"

namespace gyrus::test {
namespace {

class Findings : public Program {};

TEST_F(Findings, AModelWithoutAManifestSaysSoAndHowToWriteOne) {
  write_model("net");
  fs::remove(folder_ / "net/gyrus.json");
  write_scan("scan.nii.gz", ramp_volume());
  const std::vector<std::string> segment = {"segment", "scan.nii.gz",   "-m",          "net",
                                            "-o",      "labels.nii.gz", "--no-conform"};
  const Outcome before = run_well(segment);
  EXPECT_NE(before.err.find("gyrus models describe net --write"), std::string::npos) << before.err;
  EXPECT_NE(run_well({"models", "describe", "net"}).err.find("--write"), std::string::npos);
  EXPECT_EQ(run_well({"models", "describe", "net", "--write"}).out, "net/gyrus.json\n");
  const std::string written = text_of(folder_ / "net/gyrus.json");
  for (const char* part : {"\"normalize\": \"minmax\"", "\"labels\": [", "\"components\": \"keep\"", "\"citation\""})
    EXPECT_NE(written.find(part), std::string::npos) << written;
  fs::remove(folder_ / "labels.nii.gz");
  EXPECT_EQ(run_well(segment).err.find("--write"), std::string::npos) << "what was written is read";
  expect_refused({"models", "describe", "net", "--write"}, 2, "there already");
}

TEST_F(Findings, FreeSurfersNumbersAndDistancesAreWritten) {
  write_model("net");
  const auto set_labels = [&](const char* names) {
    std::ofstream(folder_ / "net/gyrus.json") << R"({"normalize": "minmax", "labels": [)" << names << "]}";
  };
  set_labels(R"("background", "Hippocampus", "Brain-Stem")");
  write_scan("scan.nii.gz", ramp_volume());
  run_well({"segment", "scan.nii.gz", "-m", "net", "-o", "labels.nii.gz", "--no-conform", "--mask", "mask.nii.gz",
            "--freesurfer", "aseg.mgz", "--distance", "distance.nii.gz"});
  const Volume labels = read_volume(in_folder("labels.nii.gz")), aseg = read_volume(in_folder("aseg.mgz"));
  const Volume mask = read_volume(in_folder("mask.nii.gz")), distance = read_volume(in_folder("distance.nii.gz"));
  for (int64_t i = 0; i < labels.voxels(); ++i) {
    const double label = value_at(labels, i), number = value_at(aseg, i);
    EXPECT_TRUE(label == 0 ? number == 0 : label == 2 ? number == 16 : number == 17 || number == 53) << number;
    EXPECT_EQ(value_at(distance, i) < 0, value_at(mask, i) == 1);
  }
  run_well(
      {"segment", "scan.nii.gz", "-m", "net", "--out-dir", "out", "--no-conform", "--outputs", "distance,freesurfer"});
  EXPECT_TRUE(fs::exists(folder_ / "out/scan_aseg.mgz"));
  EXPECT_TRUE(fs::exists(folder_ / "out/scan_distance.nii.gz"));
  set_labels(R"("background", "brain", "Brain-Stem")");
  expect_refused({"segment", "scan.nii.gz", "-m", "net", "-o", "other.nii.gz", "--freesurfer", "a.mgz"}, 5, "\"brain\"",
                 "other.nii.gz");
}

TEST_F(Findings, AllVolumesOfASeriesGetOneMask) {
  // Labels what is brighter than 0.3 of the range.
  using namespace onnx_file;
  write("net/net.onnx", to_bytes(model(node("Conv", {"x", "w", "b"}, {"y"}) +
                                       initializer(tensor("w", Float, {2, 1, 1, 1, 1}, std::vector<float>{0, 1})) +
                                       initializer(tensor("b", Float, {2}, std::vector<float>{0, -0.3f})) +
                                       input("x", Float, {1, 1, -1, -1, -1}) + output("y"))));
  write("net/gyrus.json", to_bytes(R"({"normalize": "minmax"})"));
  // Three volumes of 16³ bytes behind one header.
  const Volume one = ramp_volume();
  std::string file = text_of([&] {
    write_scan("one.nii", one);
    return in_folder("one.nii");
  }());
  const std::string voxels = file.substr(file.size() - static_cast<size_t>(one.voxels()));
  file += voxels + voxels;
  for (size_t i = 0; i < voxels.size(); ++i) file[file.size() - 1 - i] = static_cast<char>(i % 7 + 1);
  file[40] = 4;  // dim: four of them, the last 3
  file[48] = 3;
  write_file(in_folder("series.nii"), file);
  run_well({"segment", "series.nii", "-m", "net", "-o", "labels.nii.gz", "--volume", "0", "--mask", "mask.nii.gz",
            "--brain", "brain.nii.gz", "--all-volumes"});
  const Volume mask = read_volume(in_folder("mask.nii.gz"));
  int64_t inside = 0, outside = 0;
  for (int64_t frame = 0; frame < 3; ++frame) {
    ReadOptions options;
    options.frame = frame;
    const Volume before = read_volume(in_folder("series.nii"), options);
    const Volume after = read_volume(in_folder("brain.nii.gz"), options);
    EXPECT_EQ(after.type, VoxelType::U8);
    for (int64_t i = 0; i < mask.voxels(); ++i) {
      (value_at(mask, i) != 0 ? inside : outside) += 1;
      ASSERT_EQ(value_at(after, i), value_at(mask, i) == 0 ? 0 : value_at(before, i)) << frame << " " << i;
    }
  }
  EXPECT_GT(inside, 0);
  EXPECT_GT(outside, 0);
  EXPECT_NE(volume_comment(in_folder("brain.nii.gz")).find("\"volumes\""), std::string::npos);
  expect_refused({"segment", "series.nii", "-m", "net", "-o", "x.nii.gz", "--all-volumes"}, 2, "--brain");
}

// T-L6
TEST_F(Findings, OutputsAreShownAsTheyAreWritten) {
  const std::string help = run_well({"segment", "--help"}).out;
  EXPECT_NE(help.find("--outputs A,B "), std::string::npos) << help;
  EXPECT_EQ(help.find("--outputs A,B ..."), std::string::npos);
}

// T-L13
TEST_F(Findings, ValuesTooLargeForFloatsAreCalledThat) {
  Volume scan({16, 16, 16}, VoxelType::F64);
  for (int64_t i = 0; i < scan.voxels(); ++i) scan.as<double>()[i] = static_cast<double>(i % 251);
  scan.as<double>()[7] = 1e300;
  write_scan("scan.nii.gz", scan);
  const Outcome outcome = run_well({"conform", "scan.nii.gz", "out.nii.gz"});
  EXPECT_NE(outcome.err.find("1 of 4096 voxels are NaN, infinite or too large for 32 bits"), std::string::npos)
      << outcome.err;
}

// T-L10, T-L17
TEST_F(Findings, ListsPipesAndNamesInCapitals) {
  write_model("net");
  write_scan("upper.nii.gz", ramp_volume());
  fs::rename(folder_ / "upper.nii.gz", folder_ / "UPPER.NII.GZ");
  write("list.txt", to_bytes("# all\n\n  UPPER.NII.GZ  \n"));
  const std::string segment = std::string(GYRUS_PROGRAM) + " segment -q --no-conform -m net ";
  const Outcome listed = run({"-c", segment + "--list - --out-dir out < list.txt"}, {}, "/bin/sh");
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_TRUE(fs::exists(folder_ / "out/UPPER_labels.nii.gz"));
  for (const char* end : {"-o - ", "-o /dev/stdout "}) {
    const Outcome piped = run({"-c", segment + end + "UPPER.NII.GZ | head -c 2 | od -An -tx1"}, {}, "/bin/sh");
    EXPECT_EQ(piped.out, " 1f 8b\n") << end << piped.err;
  }
  EXPECT_NE(run_well({"segment", "--help"}).out.find("standard input"), std::string::npos);
}

// T-L18
TEST_F(Findings, WithoutAHomeNothingIsLeftInTheFolder) {
  write_model("net");
  write_scan("scan.nii.gz", ramp_volume());
  const std::vector<std::string> nothing = {"HOME=", "XDG_CACHE_HOME=", "GYRUS_NO_CACHE="};
  const Outcome outcome = run({"segment", "scan.nii.gz", "-m", "net", "-o", "labels.nii.gz", "--no-conform"}, nothing);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err.find("shader cache"), std::string::npos) << outcome.err;
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
}

// T-L19
TEST_F(Findings, AScanOfLittleIsNotSentToAWayThatTheModelWasNotTrainedWith) {
  write_model("net");
  std::ofstream(folder_ / "net/gyrus.json") << R"({"normalize": "quantile:0.02,0.98"})";
  Volume scan({32, 32, 32}, VoxelType::U8);
  for (int64_t i = 0; i < 200; ++i) scan.as<uint8_t>()[i] = static_cast<uint8_t>(50 + i);
  write_scan("scan.nii.gz", scan);
  const Outcome outcome = run({"segment", "scan.nii.gz", "-m", "net", "-o", "labels.nii.gz", "--no-conform"});
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("less than 2 % of the volume"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("minmax"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace gyrus::test
