// Networks whose values overflow: an error that names the layer, on the command line and in the library.
#include <cstring>

#include "e2e/e2e_support.h"
#include "gyrus/gyrus.h"

namespace gyrus::test {
namespace {

constexpr int kNonFinite = 8;

class Overflow : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_scan("scan.nii", ramp_volume());
  }
};

// Weights so large that halves overflow: the layer is named, nothing is written.
TEST_F(Overflow, NetworksThatOverflow) {
  const ByteVector weights = make_safetensors(make_meshnet_weights(3));
  write("bad/model.json", json_bytes(make_layer_list(3)));
  write("bad/model.pth", scaled_safetensors(weights, {"model.0.weight", "model.2.weight"}, 1e6f));
  const std::vector<std::string> command = {"segment", "scan.nii", "--no-conform", "-m", "bad", "-o", "out.nii"};
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--nan-check"}}) {
    std::vector<std::string> halves = command;
    halves.insert(halves.end(), {"--precision", "f16"});
    halves.insert(halves.end(), more.begin(), more.end());
    expect_refused(halves, kNonFinite, "[model.", "out.nii");
    expect_refused(halves, kNonFinite, "try --precision f32", "out.nii");
  }
  std::vector<std::string> singles = command;
  singles.insert(singles.end(), {"--precision", "f32", "--nan-check", "-q"});
  run_well(singles);
}

TEST_F(Overflow, RealNetworkThatOverflows) {
  const fs::path data = test_data();
  if (data.empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  copy_files(data / "models/model5_gw_ae", "bad");
  const std::vector<uint8_t> file = read_bytes(folder_ / "bad/model.pth");
  ByteVector weights(file.size());
  std::memcpy(weights.data(), file.data(), file.size());
  write("bad/model.pth", scaled_safetensors(weights, {"model.0.weight", "model.2.weight", "model.4.weight"}, 300));
  Volume crop({48, 48, 48}, VoxelType::U8);
  const std::vector<uint8_t> voxels = read_bytes(data / "reference/crops/crop48.u8");
  std::memcpy(crop.data.data(), voxels.data(), crop.data.size());
  write_scan("crop.nii", crop);
  expect_refused({"segment", "crop.nii", "--no-conform", "-m", "bad", "-o", "out.nii", "--precision", "f16"},
                 kNonFinite, "[model.", "out.nii");
  SegmenterOptions halves;
  halves.precision = PrecisionChoice::F16;
  try {
    Segmenter(in_folder("bad"), {48, 48, 48}, halves).run(std::span(voxels));
    ADD_FAILURE() << "labels, and nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NonFinite) << error.what();
    EXPECT_NE(std::string(error.what()).find("[model."), std::string::npos) << error.what();
    ASSERT_FALSE(error.hints().empty());
    EXPECT_EQ(error.hints()[0], Hint::SinglePrecision);
  }
}

}  // namespace
}  // namespace gyrus::test
