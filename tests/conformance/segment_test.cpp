// ONNX networks for volumes on a WebGPU device: from scans to labels, by sliding windows and as a whole.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/limits.h"
#include "engine/model_store.h"
#include "engine/pipeline.h"
#include "support/onnx_writer.h"
#include "support/test_data.h"

namespace gyrus::test {
namespace {

namespace fs = std::filesystem;

struct Under {
  const char* name;
  std::optional<Limits> limits;
};
const std::vector<Under> kEveryLimits = {
    {"adapter", std::nullopt}, {"default", default_limits()}, {"tiny", tiny_limits()}};

Segmentation segment(const DescribedModel& model, const std::string& scan, PipelineOptions options,
                     bool probabilities = true) {
  options.probabilities = probabilities;
  options.allow_empty = true;
  ScanPipeline pipeline(model, options);
  Segmentation item = pipeline.read(scan);
  pipeline.compute(item);
  pipeline.finish(item);
  return item;
}

int64_t different(const Volume& a, const Volume& b) {
  EXPECT_EQ(a.dims, b.dims);
  int64_t count = 0;
  for (int64_t i = 0; i < a.voxels(); ++i) count += value_at(a, i) != value_at(b, i);
  return count;
}

// tests/data/unet3d/make.py: strided, grouped and transposed 3-D convolutions, two channels, windows that overlap and
// an axis shorter than the patch; torch in float64 says what comes out.
TEST(Segment, UNetBySlidingWindowsGivesWhatTorchDoes) {
  constexpr double kProbability = 1e-5;  // f32 through eleven convolutions and as many norms
  const fs::path folder = fs::path(GYRUS_SOURCE_DIR) / "tests/data/unet3d";
  const DescribedModel model = open_model(folder.string());
  const Volume labels = read_volume((folder / "labels.nii.gz").string());
  const Volume probability = read_volume((folder / "probability_1.nii.gz").string());
  for (const Under& under : kEveryLimits) {
    SCOPED_TRACE(under.name);
    PipelineOptions options;
    options.session.limits = under.limits;
    const Segmentation item = segment(model, (folder / "scan_0000.nii.gz").string(), options);
    EXPECT_EQ(different(item.labels, labels), 0);
    ASSERT_EQ(item.probabilities.size(), 3u);
    double worst = 0;
    for (int64_t i = 0; i < labels.voxels(); ++i)
      worst = std::max(worst, std::abs(value_at(item.probabilities[1], i) - value_at(probability, i)));
    EXPECT_LT(worst, kProbability);
  }
}

// The weights of model5_gw_ae with reversed kernels, on axes z, y, x.
class Twin : public testing::Test {
 protected:
  void SetUp() override {
    if (test_data().empty() || !fs::exists(model_file())) GTEST_SKIP() << "the public test data is absent";
    folder_ = fs::temp_directory_path() / ("gyrus_twin_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    fs::copy_file(model_file(), folder_ / "model.onnx", fs::copy_options::overwrite_existing);
  }
  void TearDown() override { fs::remove_all(folder_); }
  static fs::path model_file() { return test_data() / "onnx/models/meshnet3d-niivue/model.onnx"; }
  DescribedModel with(const std::string& manifest) const {
    std::ofstream(folder_ / "gyrus.json") << manifest;
    return open_model(folder_.string());
  }
  fs::path folder_;
};

TEST_F(Twin, MeshnetOfACropGivesItsLabels) {
  Volume scan({61, 53, 47}, VoxelType::U8), want = scan;
  for (auto [volume, name] :
       {std::pair(&scan, "crop61x53x47.u8"), std::pair(&want, "labels_model5_gw_ae_crop61x53x47.u8")}) {
    const std::vector<uint8_t> bytes = read_bytes(test_data() / "reference/crops" / name);
    std::copy(bytes.begin(), bytes.end(), volume->as<uint8_t>());
  }
  write_volume((folder_ / "crop.nii").string(), scan);
  const DescribedModel model = with(R"({"axes": "zyx", "normalize": "minmax", "patch": "whole"})");
  for (const Under& under : {kEveryLimits[0], kEveryLimits[1]}) {
    PipelineOptions options;
    options.session.limits = under.limits;
    EXPECT_LE(different(segment(model, (folder_ / "crop.nii").string(), options).labels, want), 4) << under.name;
  }
}

// GYRUS_TEST_FULL=1: the whole head, 256³ voxels, for a real GPU.
TEST_F(Twin, MeshnetOfAHeadGivesItsLabels) {
  if (std::getenv("GYRUS_TEST_FULL") == nullptr)
    GTEST_SKIP() << "minutes on a software driver; GYRUS_TEST_FULL=1 runs it";
  const std::string scan = (test_data() / "volumes/chris_t1_conformed.nii.gz").string();
  const DescribedModel model = with(R"({"axes": "zyx", "normalize": "minmax", "conform": true})");
  const DescribedModel layers = open_model((test_data() / "models/model5_gw_ae").string());
  const Segmentation item = segment(model, scan, {}, false), other = segment(layers, scan, {}, false);
  EXPECT_EQ(item.labels.dims, (Dims{256, 256, 256}));
  // So many of 16.8 million voxels have two best scores that differ by a rounding error.
  EXPECT_LE(different(item.labels, other.labels), 20);
  std::cout << item.facts.adapter.name << ": ONNX " << item.profile.gpu_seconds << " s, layers "
            << other.profile.gpu_seconds << " s, " << different(item.labels, other.labels) << " voxels differ\n";
}

// Networks whose result is plain arithmetic on the image, so that what the pipeline makes of it can be told.
class Scored : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("gyrus_scored_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    scan_ = Volume({9, 7, 8}, VoxelType::F32);
    for (int64_t i = 0; i < scan_.voxels(); ++i) scan_.as<float>()[i] = std::sin(static_cast<float>(i) * 0.7f) * 3;
    write_volume((folder_ / "scan.nii").string(), scan_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The labels, and the probability of each class, by the network's nodes from "x" to "y".
  Segmentation run(const std::string& nodes, const std::string& manifest) const {
    using namespace onnx_file;
    std::ofstream(folder_ / "model.onnx", std::ios::binary)
        << model(nodes + input("x", Float, {1, 1, -1, -1, -1}) + output("y"));
    std::ofstream(folder_ / "gyrus.json") << "{\"normalize\": \"none\", " << manifest << "}";
    return segment(open_model(folder_.string()), (folder_ / "scan.nii").string(), {});
  }
  static std::string scaled(const std::vector<float>& weights, const std::vector<float>& bias) {
    using namespace onnx_file;
    const auto n = static_cast<int64_t>(weights.size());
    return node("Conv", {"x", "w", "b"}, {"y"}) + initializer(tensor("w", Float, {n, 1, 1, 1, 1}, weights)) +
           initializer(tensor("b", Float, {n}, bias));
  }
  template <class F>
  void expect_labels(const Segmentation& item, F label) const {
    for (int64_t i = 0; i < scan_.voxels(); ++i)
      ASSERT_EQ(value_at(item.labels, i), label(scan_.as<float>()[i])) << scan_.as<float>()[i];
  }

  fs::path folder_;
  Volume scan_;
};

// A third of the voxels lies in one window only, others in up to eight: the result must not tell.
TEST_F(Scored, WindowsOfAPointwiseNetworkDoNotShow) {
  const std::string nodes = scaled({0, 1, 2}, {0.25f, 0, -1.5f});
  const auto label = [](float v) { return v > 1.5f ? 2 : v > 0.25f ? 1 : 0; };
  for (const char* how :
       {R"("patch": "whole")", R"("patch": "whole", "multiple": 4)", R"("patch": 4, "overlap": 0.5)",
        R"("patch": [4, 3, 16], "blend": "gaussian", "axes": "zyx")", R"("patch": [9, 2, 8], "overlap": 0)"}) {
    SCOPED_TRACE(how);
    const Segmentation item = run(nodes, how);
    expect_labels(item, label);
    const double v = scan_.as<float>()[5], a = std::exp(0.25), b = std::exp(v), c = std::exp(2 * v - 1.5);
    EXPECT_NEAR(value_at(item.probabilities[1], 5), b / (a + b + c), 1e-6);
  }
}

TEST_F(Scored, SigmoidsAreThereOverTheThreshold) {
  for (const std::string how : {R"("patch": "whole")", R"("patch": 5, "overlap": 0.4)"}) {
    const Segmentation one = run(scaled({2}, {-1}), R"("scores": "sigmoid", )" + how);
    expect_labels(one, [](float v) { return 2 * v - 1 > 0 ? 1 : 0; });
    ASSERT_EQ(one.probabilities.size(), 2u);
    const double p = 1 / (1 + std::exp(1 - 2.0 * scan_.as<float>()[5]));
    EXPECT_NEAR(value_at(one.probabilities[1], 5), p, 1e-6);
    EXPECT_NEAR(value_at(one.probabilities[0], 5), 1 - p, 1e-6);
    // Regions inside one another: the last that is there counts.
    expect_labels(run(scaled({1, 1}, {0, -1}), R"("scores": "sigmoid", )" + how), [](float v) {
      return v > 1 ? 2 : v > 0 ? 1 : 0;
    });
    expect_labels(run(scaled({0.1f}, {0.5f}), R"("scores": "sigmoided", "threshold": 0.6, )" + how),
                  [](float v) { return 0.1f * v + 0.5f > 0.6f ? 1 : 0; });
  }
}

TEST_F(Scored, LabelsAreVotes) {
  using namespace onnx_file;
  const std::string nodes = node("Conv", {"x", "w"}, {"s"}) +
                            initializer(tensor("w", Float, {3, 1, 1, 1, 1}, std::vector<float>{-1, 0, 1})) +
                            node("ArgMax", {"s"}, {"y"}, attribute("axis", 1) + attribute("keepdims", 0));
  for (const std::string how : {R"("patch": "whole")", R"("patch": 5)"})
    expect_labels(run(nodes, R"("scores": "labels", "labels": ["a", "b", "c"], )" + how), [](float v) {
      return v > 0 ? 2 : v < 0 ? 0 : 0;
    });
}

// The network's grid is another: labels come back to the scan's.
TEST_F(Scored, LabelsComeBackFromTheGridOfTheNetwork) {
  Affine affine;
  affine.rows = {{{0, 0, -1.5, 20}, {2, 0, 0, 3}, {0, 1, 0, -4}}};
  set_affine(scan_, affine);
  write_volume((folder_ / "scan.nii").string(), scan_);
  const Segmentation turned = run(scaled({0, 1}, {0, 0}), R"("orientation": "RAS", "patch": 6)");
  EXPECT_EQ(axis_codes(turned.network_input().affine), "RAS");
  expect_labels(turned, [](float v) { return v > 0 ? 1 : 0; });
  const Segmentation finer = run(scaled({0, 1}, {0, 0}), R"("spacing": 0.5, "patch": 16)");
  EXPECT_EQ(finer.network_input().dims, (Dims{33, 13, 22}));
  EXPECT_EQ(finer.labels.dims, scan_.dims);
}

}  // namespace
}  // namespace gyrus::test
