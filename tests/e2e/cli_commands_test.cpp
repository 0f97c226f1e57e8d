// The commands as they are meant to be used.
#include <nlohmann/json.hpp>

#include "e2e/e2e_support.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

class Commands : public Program {};

int64_t different(const Volume& a, const Volume& b) {
  EXPECT_EQ(a.dims, b.dims);
  EXPECT_EQ(a.type, b.type);
  int64_t count = 0;
  for (int64_t i = 0; i < a.voxels(); ++i) count += value_at(a, i) != value_at(b, i);
  return count;
}

TEST_F(Commands, DemoFindsTheTissues) {
  const Outcome outcome = run_well({"demo", "--size", "48", "--out", "demo", "--json"});
  const json result = json::parse(outcome.out);
  // At this size the cortex is a voxel or two thick; at 128 the values are above 0.9.
  for (const char* tissue : {"background", "skull", "grey matter", "white matter"})
    EXPECT_GT(result.at("dice").at(tissue).get<double>(), 0.7) << tissue;
  for (const char* file : {"head.nii.gz", "truth.nii.gz", "labels.nii.gz", "picture.png"})
    EXPECT_TRUE(fs::exists(folder_ / "demo" / file)) << file;
}

TEST_F(Commands, SegmentsWhatTheDemoMade) {
  run_well({"demo", "--size", "48", "--out", "demo", "--quiet"});
  write_model("model");
  const Outcome outcome = run_well({"segment", "demo/head.nii.gz", "--no-conform", "-m", "model", "-o", "labels.nii.gz",
                                    "--json", "--trace", "trace.json", "--profile", "--quiet"});
  const json summary = json::parse(outcome.out);
  EXPECT_EQ(summary.at("plan").at("peak_bytes"), summary.at("plan").at("allocated_bytes"));
  int64_t voxels = 0;
  for (const json& label : summary.at("labels")) voxels += label.at("voxels").get<int64_t>();
  EXPECT_EQ(voxels, 48 * 48 * 48);
  EXPECT_GT(summary.at("seconds").at("gpu").get<double>(), 0);
  EXPECT_NE(outcome.err.find("conv_"), std::string::npos) << "no profile by kernel";
  const json trace = json::parse(text_of(in_folder("trace.json")));
  EXPECT_GT(trace.at("traceEvents").size(), 6u);

  const Volume head = read_volume(in_folder("demo/head.nii.gz"));
  const Volume labels = read_volume(in_folder("labels.nii.gz"));
  EXPECT_EQ(labels.dims, head.dims);
  EXPECT_EQ(labels.affine, head.affine);
  EXPECT_EQ(labels.type, VoxelType::U8);
}

TEST_F(Commands, DemoModelAsFilesGivesTheSameLabels) {
  run_well({"demo", "--size", "48", "--out", "demo", "--quiet"});
  run_well({"demo", "--size", "48", "--out", "files", "--files"});
  run_well({"segment", "files/head.nii.gz", "--no-conform", "-m", "files", "-o", "labels.nii.gz", "--quiet"});
  EXPECT_EQ(different(read_volume(in_folder("demo/labels.nii.gz")), read_volume(in_folder("labels.nii.gz"))), 0);
}

TEST_F(Commands, LimitsDoNotChangeLabels) {
  write_model("model");
  write_scan("scan.nii", ramp_volume(20));
  run_well({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "a.nii", "--quiet"});
  run_well({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "b.nii", "--quiet", "--limits", "default"});
  write("tiny.json", to_bytes(R"({"maxBufferSize": 131072, "maxStorageBufferBindingSize": 65536,
    "maxStorageBuffersPerShaderStage": 4, "maxComputeWorkgroupsPerDimension": 32,
    "maxComputeInvocationsPerWorkgroup": 64, "maxComputeWorkgroupSizeX": 64, "maxComputeWorkgroupSizeY": 64,
    "maxComputeWorkgroupStorageSize": 4096})"));
  run_well({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "c.nii", "--quiet", "--limits", "tiny.json"});
  const Volume usual = read_volume(in_folder("a.nii"));
  EXPECT_EQ(different(usual, read_volume(in_folder("b.nii"))), 0);
  EXPECT_EQ(different(usual, read_volume(in_folder("c.nii"))), 0);
}

// A scan of another type with the same values gives the same labels, also through standard input and output.
TEST_F(Commands, ElementTypesAndStreams) {
  write_model("model");
  const Volume bytes = ramp_volume(16);
  write_scan("bytes.nii", bytes);
  Volume floats = like(bytes, VoxelType::F32);
  for (int64_t i = 0; i < bytes.voxels(); ++i) floats.as<float>()[i] = static_cast<float>(bytes.as<uint8_t>()[i]);
  write_scan("floats.nii.gz", floats);
  run_well({"segment", "bytes.nii", "--no-conform", "-m", "model", "-o", "a.nii", "-q"});
  run_well({"segment", "floats.nii.gz", "--no-conform", "-m", "model", "-o", "b.nii", "-q"});
  EXPECT_EQ(different(read_volume(in_folder("a.nii")), read_volume(in_folder("b.nii"))), 0);
  const Outcome piped =
      run({"-c", std::string(GYRUS_PROGRAM) + " segment - --no-conform -m model -o - -q < bytes.nii"}, {}, "/bin/sh");
  ASSERT_EQ(piped.status, 0) << piped.err;
  const Volume streamed =
      read_volume({reinterpret_cast<const std::byte*>(piped.out.data()), piped.out.size()}, "stdout");
  EXPECT_EQ(different(read_volume(in_folder("a.nii")), streamed), 0);
}

TEST_F(Commands, PlansAreReproducible) {
  write_model("model");
  for (const char* name : {"a", "b"})
    run_well({"plan", "model", "--size", "24x20x16", "--limits", "default", "-o", std::string(name) + ".json", "--dump",
              std::string("kernels_") + name});
  EXPECT_EQ(text_of(in_folder("a.json")), text_of(in_folder("b.json")));
  EXPECT_EQ(text_of(in_folder("a.bin")), text_of(in_folder("b.bin")));
  const json plan = json::parse(text_of(in_folder("a.json")));
  EXPECT_EQ(plan.at("weights").get<size_t>(), fs::file_size(folder_ / "a.bin"));
  EXPECT_FALSE(fs::is_empty(folder_ / "kernels_a"));
}

TEST_F(Commands, PlanShowsGraphStepsAndCost) {
  write_model("model");
  const std::string text = run_well({"plan", "model", "--size", "16", "--limits", "default"}).out;
  for (const char* part :
       {"peak memory", "FLOP", "graph before the passes", "graph after the passes", "buffers", "steps", "argmax"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

// The bytes behind "peak memory" in the summary.
double peak_of(const std::string& text) { return std::stod(text.substr(text.find('(') + 1)); }

TEST_F(Commands, PlanShowsWhatTrainingNeeds) {
  write_model("model");
  const auto plan = [&](const std::string& recompute) {
    return run_well({"plan", "model", "--size", "24", "--limits", "default", "--train", "--recompute", recompute, "-q"})
        .out;
  };
  const std::string none = plan("none"), cheap = plan("cheap");
  for (const char* part : {"a training step", "none ", "norms ", "cheap ", "saved"})
    EXPECT_NE(none.find(part), std::string::npos) << part;
  EXPECT_LE(peak_of(cheap), peak_of(none));
  expect_refused({"plan", "model", "--train", "--loss", "hinge"}, 2, "none of: cross_entropy");
  expect_refused({"plan", "model", "--recompute", "cheap"}, 2, "--train");
}

TEST_F(Commands, InfoAndDevices) {
  write_model("model");
  const json info = json::parse(run_well({"info", "model", "--size", "32", "--json"}).out);
  EXPECT_EQ(info.at("classes"), 3);
  EXPECT_EQ(info.at("layers").size(), 3u);
  EXPECT_NE(run_well({"info", "model"}).out.find("receptive field"), std::string::npos);
  const json devices = json::parse(run_well({"devices", "--json"}).out);
  ASSERT_FALSE(devices.empty());
  EXPECT_GE(devices[0].at("limits").at("maxBufferSize").get<uint64_t>(), 268435456u);
}

TEST_F(Commands, ModelsAreFoundByName) {
  write_model("cache/gyrus/models/tiny");
  write_model("mine/small");
  run_well({"info", "tiny", "--size", "16"}, {"XDG_CACHE_HOME=" + in_folder("cache"), "GYRUS_MODELS="});
  run_well({"info", "small", "--size", "16"}, {"GYRUS_MODELS=" + in_folder("mine")});
  expect_refused({"info", "tiny"}, 3, "none of that name", "", {"GYRUS_MODELS=" + in_folder("mine")});
}

TEST_F(Commands, ManifestSaysHowToNormalise) {
  write_model("model");
  write("model/gyrus.json", to_bytes(R"({"normalize": "quantile:0.1,0.9", "labels": ["background", "one", "two"]})"));
  write_scan("scan.nii", ramp_volume());
  const json summary =
      json::parse(run_well({"segment", "scan.nii", "--no-conform", "-m", "model", "-o", "l.nii", "--json"}).out);
  EXPECT_EQ(summary.at("normalization").at("kind"), "quantile:0.1,0.9");
}

TEST_F(Commands, EveryKindOfResult) {
  write_model("model");
  Volume scan = ramp_volume(20);
  set_affine(scan, {});
  write_scan("scan.nii", scan);
  run_well({"segment",
            "scan.nii",
            "--no-conform",
            "-m",
            "model",
            "-o",
            "l.nii.gz",
            "--mask",
            "mask.nii.gz",
            "--brain",
            "brain.nii.gz",
            "--probabilities",
            "p.nii.gz",
            "--report",
            "report.csv",
            "--picture",
            "look.png",
            "--tables",
            "--qc",
            "qc.html",
            "--border",
            "1",
            "-q"});
  const Volume labels = read_volume(in_folder("l.nii.gz"));
  const Volume mask = read_volume(in_folder("mask.nii.gz"));
  for (int64_t i = 0; i < labels.voxels(); ++i)
    ASSERT_TRUE(labels.as<uint8_t>()[i] == 0 || mask.as<uint8_t>()[i] == 1) << i;
  // The label is the class of the greatest probability; the background has what the others leave.
  const Volume one = read_volume(in_folder("p_label-1.nii.gz"));
  const Volume two = read_volume(in_folder("p_label-2.nii.gz"));
  for (int64_t i = 0; i < labels.voxels(); ++i) {
    const double p[] = {1 - value_at(one, i) - value_at(two, i), value_at(one, i), value_at(two, i)};
    constexpr double kRounding = 1e-5;  // of three floats that add to 1
    for (const double other : p) ASSERT_GE(p[labels.as<uint8_t>()[i]], other - kRounding) << i;
  }
  for (const char* file :
       {"brain.nii.gz", "report.csv", "look.png", "l.json", "l_itksnap.txt", "l_freesurfer.txt", "qc.html"})
    EXPECT_TRUE(fs::exists(folder_ / file)) << file;
}

// A scan of another grid: labels come back on it, or stay on the conformed one.
TEST_F(Commands, ConformsAndCarriesBack) {
  run_well({"demo", "--size", "48", "--out", "demo", "--quiet"});
  run_well({"conform", "demo/head.nii.gz", "conformed.nii.gz"});
  const Volume conformed = read_volume(in_folder("conformed.nii.gz"));
  EXPECT_EQ(conformed.dims, (Dims{256, 256, 256}));
  EXPECT_EQ(conformed.type, VoxelType::U8);
}

// A real model on a real crop, against labels computed in float64.
TEST_F(Commands, RealModelOnRealCrop) {
  const fs::path data = test_data();
  if (data.empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  Volume crop({48, 48, 48}, VoxelType::U8);
  const std::vector<uint8_t> voxels = read_bytes(data / "reference/crops/crop48.u8");
  std::memcpy(crop.data.data(), voxels.data(), voxels.size());
  write_scan("crop.nii.gz", crop);
  const std::string model = (data / "models/model5_gw_ae").string();
  run_well({"segment", "crop.nii.gz", "--no-conform", "-m", model, "-o", "l.nii.gz", "--precision", "f32",
            "--components", "keep"});
  const Volume labels = read_volume(in_folder("l.nii.gz"));
  const std::vector<uint8_t> want = read_bytes(data / "reference/crops/labels_model5_gw_ae_crop48.u8");
  const json info = json::parse(text_of(data / "reference/crops/info.json"));
  int64_t wrong = 0;
  for (int64_t i = 0; i < labels.voxels(); ++i) wrong += labels.as<uint8_t>()[i] != want[static_cast<size_t>(i)];
  EXPECT_LE(wrong, info.at("model5_gw_ae/crop48").at("margin").at("0.001").get<int64_t>());
}

}  // namespace
}  // namespace gyrus::test
