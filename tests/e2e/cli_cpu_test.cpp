// The CPU as a device: chosen where there is no GPU, with the labels that WebGPU gives.
#include "e2e/e2e_support.h"

namespace gyrus::test {
namespace {

class OnTheCpu : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_model("model");
    write_scan("scan.nii", ramp_volume());
  }
  std::vector<std::string> segment(const std::string& to, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"segment", "scan.nii", "--no-conform", "-m", "model", "-o", to};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  const std::vector<std::string> no_drivers_ = {"VK_ICD_FILENAMES=/nowhere.json", "VK_DRIVER_FILES=/nowhere.json",
                                                "GYRUS_DEVICE="};
};

TEST_F(OnTheCpu, LabelsAreThoseOfWebGpuWithAnyNumberOfThreads) {
  run_well(segment("webgpu.nii", {"--device", "webgpu"}));
  for (const char* threads : {"1", "2", "8"}) {
    const std::string name = std::string("cpu") + threads + ".nii";
    run_well(segment(name, {"--device", "cpu", "--threads", threads}));
    const std::vector<uint8_t> a = read_bytes(folder_ / "webgpu.nii"), b = read_bytes(folder_ / name);
    // The header and what made the file stand before the voxels; the device is among it.
    const auto voxels = static_cast<size_t>(ramp_volume().voxels());
    ASSERT_GT(std::min(a.size(), b.size()), voxels);
    EXPECT_TRUE(std::equal(a.end() - static_cast<std::ptrdiff_t>(voxels), a.end(),
                           b.end() - static_cast<std::ptrdiff_t>(voxels)))
        << threads;
  }
}

TEST_F(OnTheCpu, HalvesAreRefusedRatherThanIgnored) {
  expect_refused(segment("h.nii", {"--device", "cpu", "--precision", "f16"}), kUnsupported, "in f32", "h.nii");
}

TEST_F(OnTheCpu, ItIsTakenWhereThereIsNoGpuAndSaysSo) {
  const Outcome chosen = run(segment("l.nii", {}), no_drivers_);
  EXPECT_EQ(chosen.status, 0) << chosen.err;
  EXPECT_NE(chosen.err.find("no GPU is used"), std::string::npos) << chosen.err;
  const Outcome listed = run({"devices"}, no_drivers_);
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_NE(listed.out.find("cpu, CPU, "), std::string::npos) << listed.out;
  EXPECT_EQ(run(segment("g.nii", {"--device", "gpu"}), no_drivers_).status, kDevice);
}

}  // namespace
}  // namespace gyrus::test
