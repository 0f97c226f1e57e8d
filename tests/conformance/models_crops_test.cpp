// The seven brain models on three real crops against float64 references, under every kind of limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/limits.h"
#include "cpu/network.h"
#include "engine/network.h"
#include "gyrus/device.h"
#include "gyrus/program.h"
#include "passes/passes.h"
#include "plan/check.h"
#include "plan/planner.h"
#include "runtime/executor.h"
#include "support/device_tests.h"
#include "support/test_data.h"

namespace gyrus::test {
namespace {

// Relative squared error of f32 logits, from the issue's own bound.
constexpr double kLogitsNmse = 1e-9;

const std::vector<std::string> kModels = {"mindgrab",        "model5_gw_ae",     "model11_gw_ae",   "model18cls",
                                          "model20chan3cls", "model21_104class", "model30chan18cls"};
const std::vector<std::string> kCrops = {"crop48", "crop61x53x47", "crop64"};

bool uses_quantiles(const std::string& model) { return model == "mindgrab" || model == "model20chan3cls"; }

class Crops : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    data_ = test_data();
    if (data_.empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
    std::tie(model_name_, crop_) = GetParam();
    info_ = nlohmann::json::parse(std::ifstream(data_ / "reference/crops/info.json"));
    spatial_ = info_.at(crop_).at("shape").get<Shape>();
    model_ = load_model((data_ / "models" / model_name_).string());
    const auto& range = info_.at(crop_);
    const double lo = uses_quantiles(model_name_) ? range.at("q02") : range.at("min");
    const double hi = uses_quantiles(model_name_) ? range.at("q98") : range.at("max");
    Tensor image(DType::U8, {1, 1, spatial_[0], spatial_[1], spatial_[2]});
    const auto bytes = to_z_fastest(read_bytes(data_ / "reference/crops" / (crop_ + ".u8")), spatial_);
    std::memcpy(image.data.data(), bytes.data(), bytes.size());
    inputs_ = {{"image", image},
               {"scale", Tensor::from_floats({1}, {static_cast<float>(1 / (hi - lo))})},
               {"shift", Tensor::from_floats({1}, {static_cast<float>(-lo / (hi - lo))})}};
  }

  Plan plan(const Limits& limits, Precision precision, NetworkOutput output, const PlanOptions& options) const {
    NetworkOptions network;
    network.input = DType::U8;
    network.output = output;
    return make_plan(optimize(network_graph(model_, spatial_, network), precision), limits, options);
  }

  Tensor run(const Limits& limits, Precision precision, NetworkOutput output,
             const PlanOptions& options = software_options()) {
    const Plan made = plan(limits, precision, output, options);
    check(made, limits);
    Executor executor(device(), made);
    EXPECT_EQ(executor.allocated_bytes(), made.peak_bytes());
    RunResult result = executor.run(inputs_);
    return std::move(result.outputs.begin()->second);
  }

  int64_t different(const Tensor& labels) const {
    const auto want =
        to_z_fastest(read_bytes(data_ / "reference/crops" / ("labels_" + model_name_ + "_" + crop_ + ".u8")), spatial_);
    int64_t count = 0;
    for (int64_t i = 0; i < labels.size(); ++i) count += labels.as<uint8_t>()[i] != want[i];
    return count;
  }

  // How many voxels have their two best logits closer than that: so many may differ.
  int64_t margin(const char* width) const { return info_.at(model_name_ + "/" + crop_).at("margin").at(width); }

  std::filesystem::path data_;
  std::string model_name_, crop_;
  nlohmann::json info_;
  Shape spatial_;
  Model model_;
  std::map<std::string, Tensor> inputs_;
};

// A software adapter needs some ten minutes a crop for everything; the quick part runs always.
bool run_everything() { return std::getenv("GYRUS_TEST_FULL") != nullptr; }

// These two are tried under every limit in any case.
bool is_quick(const std::string& model) { return model == "mindgrab" || model == "model5_gw_ae"; }

TEST_P(Crops, LabelsWithinMargins) {
  if (!run_everything() && (crop_ != "crop48" || is_quick(model_name_)))
    GTEST_SKIP() << "set GYRUS_TEST_FULL=1 to run every model and crop";
  const int64_t f32 = different(run(device().limits(), Precision::F32, NetworkOutput::Labels));
  EXPECT_LE(f32, margin("0.001"));
  std::printf("%s %s: f32 %ld of %ld\n", model_name_.c_str(), crop_.c_str(), static_cast<long>(f32),
              static_cast<long>(margin("0.001")));
}

TEST_P(Crops, LabelsWithinMarginsUnderEveryLimit) {
  if (!run_everything() && (crop_ != "crop48" || !is_quick(model_name_)))
    GTEST_SKIP() << "set GYRUS_TEST_FULL=1 to run every model and crop";
  const Limits adapter = device().limits();
  const Tensor usual = run(adapter, Precision::F32, NetworkOutput::Labels);
  const int64_t f32 = different(usual);
  const int64_t f16 = different(run(adapter, Precision::F16, NetworkOutput::Labels));
  const Tensor by_default = run(intersect(default_limits(), adapter), Precision::F32, NetworkOutput::Labels);
  const int64_t tiny = different(run(tiny_limits(), Precision::F32, NetworkOutput::Labels));
  EXPECT_LE(f32, margin("0.001"));
  // The adapter's limits and the default ones cut a crop alike, so no sum changes its order.
  EXPECT_EQ(by_default.data, usual.data);
  EXPECT_LE(f16, margin("0.01"));
  EXPECT_LE(different(by_default), margin("0.001"));
  EXPECT_LE(tiny, margin("0.001"));
  std::printf("%s %s: f32 %ld f16 %ld tiny %ld of %ld, %ld\n", model_name_.c_str(), crop_.c_str(),
              static_cast<long>(f32), static_cast<long>(f16), static_cast<long>(tiny),
              static_cast<long>(margin("0.001")), static_cast<long>(margin("0.01")));
}

// The kernels that a GPU gets, with Winograd and staged weights, on whatever adapter there is.
TEST_P(Crops, LabelsWithinMarginsWithTheKernelsOfAGpu) {
  if (!run_everything() && (crop_ != "crop48" || model_name_ != "model5_gw_ae"))
    GTEST_SKIP() << "set GYRUS_TEST_FULL=1 to run every model and crop";
  const Limits adapter = device().limits();
  const Plan made = plan(adapter, Precision::F32, NetworkOutput::Labels, {});
  const auto winograd = [](const PlanKernel& k) { return k.name.find("winograd") != std::string::npos; };
  EXPECT_TRUE(std::any_of(made.kernels.begin(), made.kernels.end(), winograd));
  const int64_t f32 = different(run(adapter, Precision::F32, NetworkOutput::Labels, {}));
  const int64_t f16 = different(run(adapter, Precision::F16, NetworkOutput::Labels, {}));
  EXPECT_LE(f32, margin("0.001"));
  EXPECT_LE(f16, margin("0.01"));
  std::printf("%s %s, kernels of a GPU: f32 %ld f16 %ld of %ld, %ld\n", model_name_.c_str(), crop_.c_str(),
              static_cast<long>(f32), static_cast<long>(f16), static_cast<long>(margin("0.001")),
              static_cast<long>(margin("0.01")));
}

// With the kernels of the CPU's own every model and crop takes seconds.
TEST_P(Crops, LabelsWithinMarginsOnTheCpu) {
  static const Device processor = open_best("cpu");
  NetworkOptions network;
  network.input = DType::U8;
  const auto labels_of = [&](Precision precision) {
    ProgramOptions options;
    options.precision = precision;
    return Program(processor, network_graph(model_, spatial_, network), options).run(inputs_).outputs.at("labels");
  };
  const int64_t f32 = different(labels_of(Precision::F32)), f16 = different(labels_of(Precision::F16));
  EXPECT_LE(f32, margin("0.001"));
  EXPECT_LE(f16, margin("0.01"));
  std::printf("%s %s, on the CPU: f32 %ld f16 %ld of %ld, %ld\n", model_name_.c_str(), crop_.c_str(),
              static_cast<long>(f32), static_cast<long>(f16), static_cast<long>(margin("0.001")),
              static_cast<long>(margin("0.01")));
}

// Memory that a whole head takes, known before it runs. Beside maps there are image, labels and what one thread works
// on.
TEST(ModelsOnTheCpu, MindgrabFitsItsMemory) {
  const std::filesystem::path data = test_data();
  if (data.empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  const Model model = load_model((data / "models/mindgrab").string());
  NetworkOptions options;
  options.input = DType::U8;
  const Graph plain = optimize_plain(network_graph(model, {256, 256, 256}, options));
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  const uint64_t singles = cpu::Network(plain).bytes(), halves = cpu::Network(store_halves(plain)).bytes();
  EXPECT_LE(singles, 2 * kGiB + kGiB / 10);
  EXPECT_LE(halves, singles / 2 + kGiB / 10);
}

TEST_P(Crops, LogitsMatch) {
  if (!is_quick(model_name_) && !run_everything()) GTEST_SKIP() << "set GYRUS_TEST_FULL=1 to run every model";
  const auto path = data_ / "reference/crops" / ("logits_" + model_name_ + "_" + crop_ + ".f32");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no reference logits for this model and crop";
  const std::vector<uint8_t> bytes = read_bytes(path);
  std::vector<float> want(bytes.size() / 4);
  std::memcpy(want.data(), bytes.data(), bytes.size());
  const Tensor got = run(device().limits(), Precision::F32, NetworkOutput::Logits);
  const int64_t voxels = spatial_[0] * spatial_[1] * spatial_[2];
  double error = 0;
  double power = 0;
  for (int64_t c = 0; c < model_.classes; ++c) {
    const auto map =
        to_z_fastest(std::vector<float>(want.begin() + c * voxels, want.begin() + (c + 1) * voxels), spatial_);
    for (int64_t v = 0; v < voxels; ++v) {
      const double difference = got.as<float>()[c * voxels + v] - map[v];
      error += difference * difference;
      power += static_cast<double>(map[v]) * map[v];
    }
  }
  EXPECT_LE(error / power, kLogitsNmse);
  std::printf("%s logits: nmse %.2e\n", model_name_.c_str(), error / power);
}

INSTANTIATE_TEST_SUITE_P(All, Crops, testing::Combine(testing::ValuesIn(kModels), testing::ValuesIn(kCrops)),
                         [](const auto& crop) { return std::get<0>(crop.param) + "_" + std::get<1>(crop.param); });

}  // namespace
}  // namespace gyrus::test
