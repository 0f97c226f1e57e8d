// The library in another program: the README's example, and Segmenter against independent references.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "e2e/e2e_support.h"
#include "gyrus/gyrus.h"
#include "volume/components.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

class Embed : public Program {
 protected:
  // A network that can be computed by hand: one convolution 1×1×1, so that the scores are w·x + b with x from 0 to 1.
  void write_threshold_model(const std::string& name) const {
    const json layer = {{"in_channels", 1}, {"out_channels", 3}, {"kernel_size", 1},
                        {"padding", 0},     {"stride", 1},       {"dilation", 1}};
    write(name + "/model.json", json_bytes({{"header", "t"}, {"bnorm", false}, {"bias", true}, {"layers", {layer}}}));
    // Class 1 from 1/4 on, class 2 from 5/8 on.
    write(name + "/model.pth", make_safetensors({{"model.0.weight", {3, 1, 1, 1, 1}, {0, 1, 2}},
                                                 {"model.0.bias", {3}, {0, -0.25f, -0.875f}}}));
  }
  static uint8_t threshold_label(double value) { return value < 0.25 ? 0 : value < 0.625 ? 1 : 2; }

  // Bytes that are no number of quarters or eighths of the range 0 … 250.
  Volume test_volume() const {
    Volume volume({16, 12, 9}, VoxelType::U8);
    for (int64_t i = 0; i < volume.voxels(); ++i) volume.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7 % 251);
    return volume;
  }
  static std::span<const uint8_t> bytes_of(const Volume& volume) {
    return {volume.as<uint8_t>(), static_cast<size_t>(volume.voxels())};
  }
};

TEST_F(Embed, ReadmeShowsTheExamples) {
  const std::string readme = text_of(fs::path(GYRUS_SOURCE_DIR) / "README.md");
  for (const char* name : {"embed.cpp", "network.cpp"}) {
    const std::string example = text_of(fs::path(GYRUS_SOURCE_DIR) / "examples" / name);
    EXPECT_NE(readme.find("```cpp\n" + example + "```\n"), std::string::npos) << name;
  }
}

TEST_F(Embed, ExampleOfANetworkLearns) {
  const Outcome outcome = run({}, {}, GYRUS_NETWORK_PROGRAM);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("3 * 2 - 1 = 5 on ", 0), 0u) << outcome.out;
}

// The number before a word.
double number_before(const std::string& text, const std::string& word, size_t start = 0) {
  const size_t end = text.find(word, start);
  if (end == std::string::npos) return -1e9;
  return std::stod(text.substr(text.find_last_of(' ', end - 1) + 1));
}

TEST_F(Embed, ExampleMapsAHead) {
  const Outcome outcome = run({"map.png", "300", "40"}, {}, GYRUS_UMAP_PROGRAM);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const double by_features = number_before(outcome.out, " % by their features");
  EXPECT_GT(by_features, 50) << outcome.out;
  EXPECT_GT(number_before(outcome.out, " % in the plane"), by_features - 30) << outcome.out;
  EXPECT_EQ(text_of(in_folder("map.png")).substr(1, 3), "PNG");
}

TEST_F(Embed, ExampleFitsSplats) {
  const Outcome outcome = run({"balls.png", "120", "40"}, {}, GYRUS_SPLATS_PROGRAM);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const double before = number_before(outcome.out, " dB to");
  EXPECT_GT(number_before(outcome.out, " dB for a view"), before + 2) << outcome.out;
  EXPECT_EQ(text_of(in_folder("balls.png")).substr(1, 3), "PNG");
}

TEST_F(Embed, ExamplesRefuseWhatTheyCannotDo) {
  for (const char* program : {GYRUS_UMAP_PROGRAM, GYRUS_SPLATS_PROGRAM}) {
    for (const std::string count : {"many", "0", "-3", "7x", "99999999999999999999"}) {
      const Outcome refused = run({"refused.png", count}, {}, program);
      EXPECT_EQ(refused.status, 1);
      EXPECT_EQ(refused.err, "'" + count + "' is no whole number from 1 to 1000000\n");
    }
    EXPECT_FALSE(std::filesystem::exists(in_folder("refused.png")));
  }
  const Outcome unwritten = run({"missing/balls.png", "20", "1"}, {}, GYRUS_SPLATS_PROGRAM);
  EXPECT_EQ(unwritten.status, 1);
  EXPECT_NE(unwritten.err.find("missing/balls.png"), std::string::npos) << unwritten.err;
}

// A second of 1000 Hz, which is the brightest row where that is.
TEST_F(Embed, ExampleDrawsASpectrogram) {
  constexpr uint32_t kRate = 16000;
  std::string wav;
  const auto put = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) wav += static_cast<char>(value >> (8 * i));
  };
  wav += "RIFF";
  put(36 + 2 * kRate, 4);
  wav += "WAVEfmt ";
  put(16, 4);
  put(1, 2);  // integers
  put(1, 2);  // one channel
  put(kRate, 4);
  put(2 * kRate, 4);
  put(2, 2);
  put(16, 2);
  wav += "data";
  put(2 * kRate, 4);
  for (uint32_t i = 0; i < kRate; ++i)
    put(static_cast<uint32_t>(static_cast<int32_t>(9000 * std::sin(2 * 3.14159265358979 * 1000 * i / kRate))), 2);
  std::ofstream(in_folder("sound.wav"), std::ios::binary) << wav;
  const Outcome outcome = run({"sound.wav", "picture.png"}, {}, GYRUS_SPECTROGRAM_PROGRAM);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("picture.png: 32 x 256, 1 s at 16000 Hz, on ", 0), 0u) << outcome.out;
  const std::string png = text_of(in_folder("picture.png"));
  ASSERT_GT(png.size(), 256u * 97);
  int brightest = -1, most = -1;
  for (int row = 0; row < 256; ++row) {
    int sum = 0;  // of the pixel in the middle; rows are stored behind 48 bytes of heads, each behind a byte of its own
    for (int part = 0; part < 3; ++part)
      sum += static_cast<unsigned char>(png[static_cast<size_t>(48 + row * 97 + 1 + 16 * 3 + part)]);
    if (sum > most) brightest = row;
    most = std::max(most, sum);
  }
  EXPECT_NEAR(brightest, 171, 1);  // 1000 Hz are 15 mel, of 45.25 up to 8000 Hz
  std::ofstream(in_folder("text.wav")) << "no sound at all";
  const Outcome refused = run({"text.wav", "other.png"}, {}, GYRUS_SPECTROGRAM_PROGRAM);
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.err, "[text.wav] is no WAV file\n");
}

TEST_F(Embed, ExampleCountsTheVoxelsOfAClass) {
  write_threshold_model("model");
  const Volume volume = ramp_volume(16);
  write("voxels.u8", volume.data);
  int64_t ones = 0;
  for (const uint8_t value : bytes_of(volume)) ones += threshold_label(value / 250.0) == 1;
  const Outcome outcome = run({"model", "16", "voxels.u8"}, {}, GYRUS_EMBED_PROGRAM);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind(std::to_string(ones) + " voxels of class 1", 0), 0u) << outcome.out << "wanted " << ones;
}

TEST_F(Embed, SegmenterLabelsManyVolumes) {
  write_threshold_model("model");
  const Volume volume = test_volume();
  Segmenter segmenter(in_folder("model"), {16, 12, 9});
  std::vector<uint8_t> want;
  for (const uint8_t value : bytes_of(volume)) want.push_back(threshold_label(value / 250.0));
  EXPECT_EQ(segmenter.run(bytes_of(volume)), want);
  EXPECT_EQ(segmenter.run(bytes_of(volume)), want);
  std::vector<float> floats(want.size());  // another element type and range; backwards, so that labels move
  for (size_t i = 0; i < floats.size(); ++i) floats[floats.size() - 1 - i] = bytes_of(volume)[i] * 3.f - 40;
  std::reverse(want.begin(), want.end());
  EXPECT_EQ(segmenter.run(floats), want);
  EXPECT_EQ(segmenter.classes(), 3);
  EXPECT_GT(segmenter.gpu_bytes(), 0u);
  EXPECT_THROW(segmenter.run(bytes_of(volume).subspan(1)), Error);
}

TEST_F(Embed, SegmenterHonoursTheManifest) {
  write_threshold_model("model");
  const Volume volume = test_volume();
  // By quantiles the range is narrower, and of each class only the largest part stays.
  write("model/gyrus.json", to_bytes(R"({"normalize": "quantile:0.1,0.9", "components": "largest"})"));
  std::vector<uint8_t> sorted(bytes_of(volume).begin(), bytes_of(volume).end());
  std::sort(sorted.begin(), sorted.end());
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(at);
    return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
  };
  const double low = quantile(0.1), high = quantile(0.9);
  Volume all({16, 12, 9}, VoxelType::U8);
  for (int64_t i = 0; i < all.voxels(); ++i)
    all.as<uint8_t>()[i] = threshold_label((bytes_of(volume)[static_cast<size_t>(i)] - low) / (high - low));
  Volume largest = all;
  ASSERT_GT(keep_largest(largest), 0);
  const auto as_vector = [](const Volume& v) { return std::vector(bytes_of(v).begin(), bytes_of(v).end()); };
  EXPECT_EQ(Segmenter(in_folder("model"), {16, 12, 9}).run(bytes_of(volume)), as_vector(largest));
  SegmenterOptions keep;
  keep.largest_component = false;
  EXPECT_EQ(Segmenter(in_folder("model"), {16, 12, 9}, keep).run(bytes_of(volume)), as_vector(all));
  keep.normalize = "minmax";
  EXPECT_NE(Segmenter(in_folder("model"), {16, 12, 9}, keep).run(bytes_of(volume)), as_vector(all));
}

TEST_F(Embed, NothingButBackgroundIsAnErrorUnlessAllowed) {
  write_threshold_model("model");
  Volume volume = test_volume();
  SegmenterOptions options;
  options.normalize = "none";
  const std::vector<float> faint(static_cast<size_t>(volume.voxels()), 0.f);
  std::vector<float> values = faint;
  values[5] = 0.125f;
  Segmenter strict(in_folder("model"), {16, 12, 9}, options);
  try {
    strict.run(values);
    ADD_FAILURE() << "all labels are zero, and nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Device) << error.what();
    EXPECT_NE(std::find(error.hints().begin(), error.hints().end(), Hint::AllowEmpty), error.hints().end());
  }
  options.allow_empty = true;
  EXPECT_EQ(Segmenter(in_folder("model"), {16, 12, 9}, options).run(values), std::vector<uint8_t>(values.size(), 0));
  write("model/gyrus.json", to_bytes(R"({"normalize": "none", "allow_empty": true})"));
  EXPECT_EQ(Segmenter(in_folder("model"), {16, 12, 9}).run(values), std::vector<uint8_t>(values.size(), 0));
}

TEST_F(Embed, ProgressCanCancel) {
  write_threshold_model("model");
  const Volume volume = test_volume();
  bool stop = true;
  SegmenterOptions options;
  options.progress = [&](double) { return !stop; };
  Segmenter segmenter(in_folder("model"), {16, 12, 9}, options);
  try {
    segmenter.run(bytes_of(volume));
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Cancelled) << error.what();
  }
  stop = false;
  EXPECT_EQ(segmenter.run(bytes_of(volume)).size(), bytes_of(volume).size());
}

TEST_F(Embed, ModelsThatAreNotThereSayHowToGetThem) {
  const std::vector<std::string> variables = {"GYRUS_MODELS=" + in_folder("store")};
  expect_refused({"info", "mindgrab"}, 3, "gyrus models fetch", "", variables);
  EXPECT_FALSE(fs::exists(folder_ / "store")) << "something was downloaded without being asked for";
}

// Real models by name, folder and renamed folder: the labels of `gyrus segment` are those of the float64 references.
class EmbedReal : public Program, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Program::SetUp();
    data_ = test_data();
    if (data_.empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
    crop_.data.resize(static_cast<size_t>(crop_.voxels()));
    const std::vector<uint8_t> bytes = read_bytes(data_ / "reference/crops/crop48.u8");
    ASSERT_EQ(bytes.size(), crop_.data.size());
    std::memcpy(crop_.data.data(), bytes.data(), bytes.size());
    std::vector<uint8_t> labels = read_bytes(data_ / "reference/crops" / ("labels_" + model() + "_crop48.u8"));
    ASSERT_EQ(labels.size(), crop_.data.size());
    std::memcpy(want_.data.data(), labels.data(), labels.size());
    if (model() == "mindgrab") keep_largest(want_);
    const json info = json::parse(std::ifstream(data_ / "reference/crops/info.json"));
    margin_ = info.at(model() + "/crop48").at("margin").at("0.001");
  }

  std::string model() const { return GetParam(); }
  int64_t different(std::span<const uint8_t> labels) const {
    int64_t count = 0;
    for (size_t i = 0; i < labels.size(); ++i) count += labels[i] != want_.as<uint8_t>()[i];
    return count;
  }
  std::vector<uint8_t> segmenter_labels(const std::string& name) const {
    return Segmenter(name, {48, 48, 48}).run({crop_.as<uint8_t>(), crop_.data.size()});
  }

  fs::path data_;
  Volume crop_{{48, 48, 48}, VoxelType::U8}, want_{{48, 48, 48}, VoxelType::U8};
  int64_t margin_ = 0;
};

TEST_P(EmbedReal, SegmenterGivesTheReferenceWithoutOptions) {
  copy_files(data_ / "models" / model(), "brainmask");
  const std::vector<uint8_t> renamed = segmenter_labels(in_folder("brainmask"));
  EXPECT_LE(different(renamed), margin_);
  setenv("GYRUS_MODELS", (data_ / "models").c_str(), 1);
  EXPECT_EQ(segmenter_labels(model()), renamed) << "by name";
  unsetenv("GYRUS_MODELS");
  EXPECT_EQ(segmenter_labels((data_ / "models" / model()).string()), renamed) << "by folder";
  write_scan("crop.nii", crop_);
  run_well({"segment", "crop.nii", "--no-conform", "-m", "brainmask", "-o", "labels.nii", "-q"});
  const Volume written = read_volume(in_folder("labels.nii"));
  EXPECT_EQ(std::vector<uint8_t>(written.as<uint8_t>(), written.as<uint8_t>() + written.voxels()), renamed);
}

INSTANTIATE_TEST_SUITE_P(Models, EmbedReal, testing::Values("mindgrab", "model5_gw_ae"));

}  // namespace
}  // namespace gyrus::test
