// The embedding example: compiled, run, and word for word the one in the README.
#include "e2e/e2e_support.h"
#include "gyrus/gyrus.h"

namespace gyrus::test {
namespace {

class Embed : public Program {};

TEST_F(Embed, ReadmeShowsTheExample) {
  const std::string readme = text_of(fs::path(GYRUS_SOURCE_DIR) / "README.md");
  const std::string example = text_of(fs::path(GYRUS_SOURCE_DIR) / "examples/embed.cpp");
  EXPECT_NE(readme.find("```cpp\n" + example + "```\n"), std::string::npos);
}

TEST_F(Embed, ExampleRuns) {
  write_model("model");
  write("voxels.u8", ramp_volume(16).data);
  const Outcome outcome = run({"model", "16", "voxels.u8"}, {}, GYRUS_EMBED_PROGRAM);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("voxels of class 1"), std::string::npos) << outcome.out;
}

TEST_F(Embed, SegmenterLabelsManyVolumes) {
  write_model("model");
  const Volume volume = ramp_volume(16);
  Segmenter segmenter(in_folder("model"), {16, 16, 16});
  const std::span<const uint8_t> bytes(volume.as<uint8_t>(), static_cast<size_t>(volume.voxels()));
  const std::vector<uint8_t> first = segmenter.run(bytes);
  EXPECT_EQ(segmenter.run(bytes), first);
  const std::vector<float> floats(bytes.begin(), bytes.end());
  EXPECT_EQ(segmenter.run(floats), first);
  EXPECT_EQ(segmenter.classes(), 3);
  EXPECT_GT(segmenter.gpu_bytes(), 0u);
  EXPECT_THROW(segmenter.run(bytes.subspan(1)), Error);
}

TEST_F(Embed, ProgressCanCancel) {
  write_model("model");
  const Volume volume = ramp_volume(16);
  const std::span<const uint8_t> bytes(volume.as<uint8_t>(), static_cast<size_t>(volume.voxels()));
  bool stop = true;
  SegmenterOptions options;
  options.progress = [&](double) { return !stop; };
  Segmenter segmenter(in_folder("model"), {16, 16, 16}, options);
  try {
    segmenter.run(bytes);
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Cancelled) << error.what();
  }
  stop = false;
  EXPECT_EQ(segmenter.run(bytes).size(), bytes.size());
}

}  // namespace
}  // namespace gyrus::test
