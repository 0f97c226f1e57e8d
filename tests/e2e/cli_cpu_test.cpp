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

TEST_F(OnTheCpu, MapsAreHalvesWhereMemoryIsShort) {
  const auto plan_of = [&](const std::string& precision, const std::string& memory) {
    if (!memory.empty()) write("memory.json", to_bytes("{\"memory\": " + memory + "}"));
    std::vector<std::string> words = segment("l.nii", {"--device", "cpu", "--precision", precision, "--json"});
    if (!memory.empty()) words.insert(words.end(), {"--limits", "memory.json"});
    const Outcome outcome = run_well(words);
    EXPECT_EQ(outcome.err.find("storing feature maps in f16: ") != std::string::npos, precision == "auto")
        << outcome.err;
    return json::parse(outcome.out).at("plan");
  };
  const json singles = plan_of("f32", ""), halves = plan_of("f16", "");
  EXPECT_EQ(singles.at("precision"), "f32");
  EXPECT_EQ(halves.at("precision"), "f16");
  const auto most = singles.at("peak_bytes").get<uint64_t>(), least = halves.at("peak_bytes").get<uint64_t>();
  ASSERT_LT(least, most);
  EXPECT_EQ(plan_of("auto", std::to_string(most - 1)), halves);
  expect_refused(segment("no.nii", {"--device", "cpu", "--precision", "f32", "--limits", "memory.json"}), kOverLimits,
                 "in f32 on the CPU, but", "no.nii");
  write("memory.json", to_bytes("{\"memory\": " + std::to_string(least - 1) + "}"));
  expect_refused(segment("no.nii", {"--device", "cpu", "--limits", "memory.json"}), kOverLimits,
                 "in f16 on the CPU, but", "no.nii");
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
