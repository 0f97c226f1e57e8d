// ONNX's node tests and real models on a WebGPU device.

#include <gtest/gtest.h>

#include <algorithm>

#include "core/limits.h"
#include "gyrus/program.h"
#include "reference/reference.h"
#include "support/device_tests.h"
#include "support/onnx_cases.h"
#include "support/onnx_writer.h"

namespace gyrus {
namespace {

using namespace test;

std::filesystem::path onnx_data() { return test_data().empty() ? std::filesystem::path() : test_data() / "onnx"; }

// The first thing that is wrong with the outputs; empty: nothing.
std::string compare(const OnnxModel& model, const std::map<std::string, Tensor>& outputs, const OnnxSet& set,
                    double rtol, double atol) {
  for (size_t i = 0; i < set.outputs.size(); ++i) {
    const onnx::OnnxPort& port = model.imported.outputs.at(i);
    const Tensor& tensor = outputs.at(port.name);
    std::vector<double> found(static_cast<size_t>(tensor.size()));
    for (size_t k = 0; k < found.size(); ++k) found[k] = get(tensor, static_cast<int64_t>(k));
    const std::string wrong = difference(port.name, port.elem, tensor.shape, found, set.outputs[i], rtol, atol);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string run_case(const Device& device, const std::filesystem::path& folder, const OnnxCase& c,
                     const ProgramOptions& options = {}) {
  const OnnxSet set = read_onnx_set(folder / c.name / "test_data_set_0");
  const OnnxModel model = import_case(folder / c.name / "model.onnx", set, c.bind);
  Program program(device, model.imported.graph, options);
  return compare(model, program.run(model.inputs).outputs, set, c.rtol, c.atol);
}

// Every test gives what ONNX says, or is refused and stands in the list with its reason.
TEST(OnnxDevice, NodeTestsAreRightOrRefused) {
  const std::filesystem::path folder = onnx_data() / "node-tests";
  if (onnx_data().empty() || !std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is absent";
  const Device device = tested_device();
  const auto refused = onnx_refused();
  const char* only = std::getenv("GYRUS_ONNX_ONLY");
  const char* report = std::getenv("GYRUS_ONNX_REPORT");
  std::ofstream out(report ? report : "/dev/null");
  std::map<std::string, size_t> passed;
  for (const OnnxCase& c : onnx_cases(folder)) {
    if (only && c.name.find(only) == std::string::npos) continue;
    const bool listed = refused.count(c.name) != 0;
    try {
      const std::string wrong = run_case(device, folder, c);
      out << (wrong.empty() ? "pass\t" : "wrong\t") << c.name << '\t' << c.op << '\t' << c.tier << '\t' << wrong
          << std::endl;
      EXPECT_EQ(wrong, "") << c.name;
      EXPECT_FALSE(listed && wrong.empty()) << c.name << " passes: take it from tests/data/onnx_refused.tsv";
      passed[c.tier] += wrong.empty();
    } catch (const Error& error) {
      out << "refused\t" << c.name << '\t' << c.op << '\t' << c.tier << '\t' << error.what() << std::endl;
      EXPECT_TRUE(listed) << c.name << ": " << error.what();
    }
  }
  for (const auto& [tier, count] : passed) std::cout << tier << ": " << count << " pass\n";
}

bool run_everything() { return std::getenv("GYRUS_TEST_FULL") != nullptr; }

struct ModelUnder {
  const char* name;
  std::optional<Limits> limits;
};

class OnnxDeviceModels : public testing::TestWithParam<OnnxModelCase> {};

// As onnxruntime computes it, under what the adapter has, what every device has, and far less.
TEST_P(OnnxDeviceModels, GiveWhatOnnxruntimeDoes) {
  const std::filesystem::path folder = onnx_data() / "models";
  if (onnx_data().empty() || !std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is absent";
  const OnnxModelCase& c = GetParam();
  static const Device device = tested_device();
  for (const ModelUnder& under :
       {ModelUnder{"adapter", std::nullopt}, {"default", default_limits()}, {"tiny", tiny_limits()}}) {
    if (device.is_cpu() && under.limits) continue;  // which has none
    // A software driver needs minutes for the large ones when they are cut everywhere.
    if (!c.light && under.limits == tiny_limits() && !run_everything()) continue;
    for (size_t k = 0; k < c.sets; ++k) {
      SCOPED_TRACE(cat(under.name, " limits, set ", k));
      const OnnxSet set = read_onnx_set(folder / c.name / ("test_data_set_" + std::to_string(k)));
      const OnnxModel model = import_case(folder / c.name / "model.onnx", set, c.bind);
      ProgramOptions options;
      options.limits = under.limits;
      Program program(device, model.imported.graph, options);
      EXPECT_EQ(compare(model, program.run(model.inputs).outputs, set, c.rtol, c.atol), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxDeviceModels, testing::ValuesIn(onnx_models()), [](const auto& param) {
  std::string name = param.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// An embedding, a product and the embedding again as the output's matrix, all of 4 bits: results
// are the reference's under every limit.
TEST(OnnxDevice, WeightsOfFewBitsStayPacked) {
  using namespace test::onnx_file;
  constexpr int64_t kRows = 300, kWide = 256, kBlock = 64;
  constexpr int kInt4 = 22;
  std::vector<uint8_t> q(kRows * kWide / 2), b(kWide * kWide / 2);
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<uint8_t>((i * 2654435761u) >> 11);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>((i * 2654435761u) >> 13);
  std::vector<float> s(kRows * kWide / kBlock), t(kWide * kWide / kBlock);
  for (size_t i = 0; i < s.size(); ++i) s[i] = 0.01F * static_cast<float>(1 + i % 7);
  for (size_t i = 0; i < t.size(); ++i) t[i] = 0.002F * static_cast<float>(1 + i % 5);
  const std::string graph =
      input("at", Int64, {1, 12}) + initializer(tensor("q", kInt4, {kRows, kWide}, q)) +
      initializer(tensor("s", Float, {kRows, kWide / kBlock}, s)) +
      initializer(tensor("b", Uint8, {kWide, kWide / kBlock, kBlock / 2}, b)) +
      initializer(tensor("t", Float, {kWide * kWide / kBlock}, t)) +
      node("DequantizeLinear", {"q", "s"}, {"w"}, attribute("axis", 1) + attribute("block_size", kBlock)) +
      node("Gather", {"w", "at"}, {"x"}) +
      node("MatMulNBits", {"x", "b", "t"}, {"h"},
           attribute("K", kWide) + attribute("N", kWide) + attribute("bits", 4) + attribute("block_size", kBlock),
           "com.microsoft") +
      node("Relu", {"h"}, {"r"}) + node("Transpose", {"w"}, {"turned"}) + node("MatMul", {"r", "turned"}, {"y"}) +
      output("y");
  const std::string file = model(graph, opset(21) + opset(1, "com.microsoft"));
  const Graph network = onnx::import_model(onnx::read_model(bytes_of(std::string_view(file)), "m.onnx")).graph;
  Tensor at(DType::I64, {1, 12});
  for (int64_t i = 0; i < at.size(); ++i) set(at, i, static_cast<double>(i * 53 % kRows - (i % 2) * kRows));
  const std::vector<double> wanted = reference::run(network, {{"at", at}}).at("y").data;
  const double largest = std::abs(*std::max_element(
      wanted.begin(), wanted.end(), [](double one, double other) { return std::abs(one) < std::abs(other); }));
  static const Device device = tested_device();
  for (const auto& limits : {std::optional<Limits>(), std::optional(default_limits()), std::optional(tiny_limits())}) {
    if (device.is_cpu() && limits) continue;
    ProgramOptions options;
    options.limits = limits;
    Program program(device, network, options);
    const Tensor y = program.run({{"at", at}}).outputs.at("y");
    ASSERT_EQ(y.size(), static_cast<int64_t>(wanted.size()));
    for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(get(y, i), wanted[static_cast<size_t>(i)], 1e-5 * largest) << i;
  }
  at.data = Tensor(DType::I64, {1, 12}).data;
  set(at, 3, kRows);
  Program program(device, network);
  EXPECT_THROW(program.run({{"at", at}}), Error);
}

// The weights of model5_gw_ae with reversed kernels: fed [1, 1, z, y, x] it gives that model's labels.
TEST(OnnxDevice, MeshnetGivesTheLabelsOfItsTwin) {
  const std::filesystem::path file = onnx_data() / "models/meshnet3d-niivue/model.onnx";
  const std::filesystem::path crops = test_data() / "reference/crops";
  if (onnx_data().empty() || !std::filesystem::exists(file)) GTEST_SKIP() << "the public test data is absent";
  const std::vector<uint8_t> scan = read_bytes(crops / "crop61x53x47.u8"),
                             labels = read_bytes(crops / "labels_model5_gw_ae_crop61x53x47.u8");
  const auto [least, most] = std::minmax_element(scan.begin(), scan.end());
  OnnxSet set;
  set.inputs.push_back({"input", onnx::Elem::F32, Tensor(DType::F32, {1, 1, 47, 53, 61})});
  Tensor& image = set.inputs[0].tensor;
  for (size_t i = 0; i < scan.size(); ++i)
    image.as<float>()[i] = static_cast<float>(scan[i] - *least) / static_cast<float>(*most - *least);
  const OnnxModel model = import_case(file, set, {});
  Program program(tested_device(), model.imported.graph);
  const Tensor logits = program.run(model.inputs).outputs.at("output");
  const size_t voxels = scan.size();
  ASSERT_EQ(logits.shape, (Shape{1, 3, 47, 53, 61}));
  size_t different = 0;
  for (size_t i = 0; i < voxels; ++i) {
    const float* at = logits.as<float>() + i;
    size_t best = 0;
    for (size_t k = 1; k < 3; ++k)
      if (at[k * voxels] > at[best * voxels]) best = k;
    different += best != labels[i];
  }
  EXPECT_LE(different, 4u);  // so many voxels have two best scores that differ by less than 1e-4
}

// Classic networks without real weights: import and shapes, and of the small ones the numbers.
TEST(OnnxDevice, LightNetworks) {
  const std::filesystem::path folder = onnx_data() / "node-tests/light";
  if (onnx_data().empty() || !std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is absent";
  const Device device = tested_device();
  for (const char* name : {"squeezenet", "shufflenet", "densenet121", "inception_v1", "inception_v2", "resnet50",
                           "bvlc_alexnet", "zfnet512", "vgg19"}) {
    SCOPED_TRACE(name);
    const std::string stem = std::string("light_") + name;
    const std::vector<std::byte> bytes = read_file((folder / (stem + ".onnx")).string());
    const onnx::ModelProto proto = onnx::read_model(bytes_of(bytes), stem);
    OnnxSet set;
    for (const onnx::DeclaredInput& input : onnx::declared_inputs(proto)) {
      Tensor tensor(DType::F32, input.shape);
      const float count = static_cast<float>(tensor.size());
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.as<float>()[i] = static_cast<float>(i) / count;
      set.inputs.push_back({input.name, onnx::Elem::F32, std::move(tensor)});
    }
    set.outputs.push_back(read_onnx_tensor(folder / (stem + "_output_0.pb")));
    const OnnxModel model = import_case(folder / (stem + ".onnx"), set, {});
    EXPECT_EQ(model.imported.outputs.at(0).shape, set.outputs[0].tensor.shape);
    const bool quick = std::string(name) == "squeezenet" || std::string(name) == "shufflenet";
    if (!quick && !run_everything()) continue;
    Program program(device, model.imported.graph);
    EXPECT_EQ(compare(model, program.run(model.inputs).outputs, set, 1e-3, 1e-5), "");
  }
}

// One test of each op and more, 300 in all, under limits that cut nearly everything.
TEST(OnnxDevice, NodeTestsAreRightUnderSmallLimits) {
  const std::filesystem::path folder = onnx_data() / "node-tests";
  if (onnx_data().empty() || !std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is absent";
  const Device device = tested_device();
  const auto refused = onnx_refused();
  const char* only = std::getenv("GYRUS_ONNX_ONLY");
  std::map<std::string, size_t> taken;
  size_t passed = 0;
  for (const OnnxCase& c : onnx_cases(folder)) {
    if (refused.count(c.name) != 0 || (only && c.name.find(only) == std::string::npos) || ++taken[c.op] > 4) continue;
    for (const ModelUnder& under : {ModelUnder{"default", default_limits()}, {"tiny", tiny_limits()}}) {
      SCOPED_TRACE(cat(c.name, " under ", under.name, " limits"));
      ProgramOptions options;
      options.limits = under.limits;
      try {
        EXPECT_EQ(run_case(device, folder, c, options), "");
        ++passed;
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  if (!only) {
    EXPECT_GE(passed, 600u);
  }
}

}  // namespace
}  // namespace gyrus
