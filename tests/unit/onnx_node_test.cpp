// ONNX's node tests through the reference: what is wrong here is the importer's fault, not a kernel's.

#include <gtest/gtest.h>

#include "reference/reference.h"
#include "support/onnx_cases.h"

namespace gyrus {
namespace {

using namespace test;

// Empty where the results are right.
std::string run_case(const std::filesystem::path& folder, const OnnxCase& c) {
  const OnnxSet set = read_onnx_set(folder / c.name / "test_data_set_0");
  const OnnxModel model = import_case(folder / c.name / "model.onnx", set, c.bind);
  const auto results = reference::run(model.imported.graph, model.inputs);
  for (size_t i = 0; i < set.outputs.size(); ++i) {
    const onnx::OnnxPort& port = model.imported.outputs.at(i);
    // Results round to their element type.
    const Tensor rounded = reference::to_tensor(results.at(port.name), port.dtype);
    std::vector<double> found(static_cast<size_t>(rounded.size()));
    for (size_t k = 0; k < found.size(); ++k) found[k] = get(rounded, static_cast<int64_t>(k));
    const std::string wrong = difference(port.name, port.elem, rounded.shape, found, set.outputs[i], c.rtol, c.atol);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

TEST(OnnxNodes, ReferenceGivesWhatOnnxDoes) {
  const std::filesystem::path folder = test_data() / "onnx/node-tests";
  if (test_data().empty() || !std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is absent";
  const auto refused = onnx_refused();
  const char* only = std::getenv("GYRUS_ONNX_ONLY");
  const char* report = std::getenv("GYRUS_ONNX_REPORT");
  std::ofstream out(report ? report : "/dev/null");
  size_t passed = 0;
  for (const OnnxCase& c : onnx_cases(folder)) {
    if (only && c.name.find(only) == std::string::npos) continue;
    const bool listed = refused.count(c.name) != 0;
    try {
      const std::string wrong = run_case(folder, c);
      out << (wrong.empty() ? "pass\t" : "wrong\t") << c.name << '\t' << c.op << '\t' << c.tier << '\t' << wrong
          << std::endl;
      EXPECT_TRUE(wrong.empty() || listed) << c.name << ": " << wrong;
      passed += wrong.empty();
    } catch (const Error& error) {
      out << "refused\t" << c.name << '\t' << c.op << '\t' << c.tier << '\t' << error.what() << std::endl;
      EXPECT_TRUE(listed) << c.name << ": " << error.what();
    }
  }
  std::cout << passed << " pass\n";
}

// Real models, of which onnxruntime gave the outputs.
TEST(OnnxModels, ReferenceGivesWhatOnnxruntimeDoes) {
  const std::filesystem::path folder = test_data() / "onnx/models";
  if (test_data().empty() || !std::filesystem::exists(folder)) GTEST_SKIP() << "the public test data is absent";
  const char* only = std::getenv("GYRUS_ONNX_ONLY");
  for (const OnnxModelCase& c : onnx_models()) {
    if (!c.light || (only && c.name.find(only) == std::string::npos)) continue;
    for (size_t k = 0; k < c.sets; ++k) {
      SCOPED_TRACE(c.name + " " + std::to_string(k));
      const OnnxSet set = read_onnx_set(folder / c.name / ("test_data_set_" + std::to_string(k)));
      const OnnxModel model = import_case(folder / c.name / "model.onnx", set, c.bind);
      const auto results = reference::run(model.imported.graph, model.inputs);
      for (size_t i = 0; i < set.outputs.size(); ++i) {
        const onnx::OnnxPort& port = model.imported.outputs.at(i);
        const RefTensor& found = results.at(port.name);
        EXPECT_EQ(difference(port.name, port.elem, found.shape, found.data, set.outputs[i], c.rtol, c.atol), "");
      }
    }
  }
}

}  // namespace
}  // namespace gyrus
