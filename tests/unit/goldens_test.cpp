#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "import/safetensors.h"
#include "ops/elementwise.h"
#include "reference/reference.h"
#include "support/golden_cases.h"
#include "support/test_data.h"

// References and derivatives against results that PyTorch computed in float64 and rounded to f32.

namespace gyrus::test {
namespace {

// The stored results are rounded to f32 once: half a unit in the last place of 24 bits, with room for sums.
constexpr double kRoundedToF32 = 1e-6;

class Goldens : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder = test_data();
    if (folder.empty()) GTEST_SKIP() << "no test data";
    cases_ = Json::parse(std::ifstream(folder / "goldens/cases.json"))["cases"];
    file_ = read_bytes(folder / "goldens/tensors.safetensors");
    tensors_ = read_safetensors(std::as_bytes(std::span(file_)), "goldens");
  }

  RefTensor tensor(const Json& name) const {
    return reference::from_tensor(*tensors_.find(name.get<std::string>())->tensor);
  }

  std::vector<RefTensor> inputs(const Json& c) const {
    std::vector<RefTensor> all;
    for (const Json& input : c["inputs"]) all.push_back(tensor(input["name"]));
    return all;
  }

  Json cases_;
  std::vector<uint8_t> file_;
  StateDict tensors_;
};

void expect_near(const RefTensor& found, const RefTensor& wanted) {
  ASSERT_EQ(found.shape, wanted.shape);
  double largest = 1e-30;
  for (double value : wanted.data) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < wanted.data.size(); ++i)
    ASSERT_NEAR(found.data[i], wanted.data[i], kRoundedToF32 * largest) << "element " << i;
}

std::vector<RefTensor> run(const Node& node, const std::vector<RefTensor>& inputs, DType dtype = DType::F32) {
  std::vector<TensorType> types;
  std::vector<const RefTensor*> pointers;
  for (const RefTensor& input : inputs) {
    types.push_back({types.empty() ? DType::F32 : dtype, input.shape, Layout::Plain});
    pointers.push_back(&input);
  }
  std::vector<RefTensor> outputs;
  for (const TensorType& type : op(node.op).infer(node, types))
    outputs.push_back({type.shape, std::vector<double>(static_cast<size_t>(element_count(type.shape)))});
  op(node.op).reference(node, pointers, outputs);
  return outputs;
}

Node node_of(const Json& c) {
  Node node;
  node.op = c["op"] == "gelu_tanh" ? "gelu" : c["op"].get<std::string>();
  if (c["op"] == "gelu_tanh") node.attrs.set("approximate", std::string("tanh"));
  for (const auto& [name, value] : c["attrs"].items()) {
    if (value.is_boolean())
      node.attrs.set(name, int64_t{value.get<bool>()});
    else if (value.is_number_integer())
      node.attrs.set(name, value.get<int64_t>());
    else if (value.is_number() && name != "beta")
      node.attrs.set(name, value.get<double>());
  }
  return node;
}

TEST_F(Goldens, ReferencesOfGradients) {
  const GoldenFile file;
  const char* only = std::getenv("GYRUS_GOLDEN_OP");
  int checked = 0;
  for (const Json& json : file.cases()) {
    if (only && json["op"] != only) continue;
    SCOPED_TRACE(json["name"].get<std::string>());
    try {
      const std::optional<GoldenGradients> made = golden_gradients(file, json);
      if (!made) continue;
      const auto found = reference::run(made->graph, made->inputs);
      for (const auto& [name, wanted] : made->wanted)
        EXPECT_LE(error_of(found.at(name).data, file.tensor(wanted)), kRoundedToF32) << name;
      ++checked;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_TRUE(only || checked > 400) << checked;
}

TEST_F(Goldens, MatmulGatherSoftmax) {
  std::map<std::string, int> seen;
  for (const Json& c : cases_) {
    const std::string name = c["op"];
    if (name != "matmul" && name != "gather" && name != "softmax") continue;
    SCOPED_TRACE(c["name"].get<std::string>());
    const std::vector<RefTensor> operands = inputs(c);
    // Vectors are matrices to this op: a reshape joins them.
    if (name == "matmul" && (operands[0].shape.size() < 2 || operands[1].shape.size() < 2)) continue;
    expect_near(run(node_of(c), operands, name == "gather" ? DType::I32 : DType::F32)[0], tensor(c["outputs"][0]));
    ++seen[name];
  }
  EXPECT_GE(seen["matmul"], 15);
  EXPECT_GE(seen["gather"], 7);
  EXPECT_GE(seen["softmax"], 9);
}

}  // namespace
}  // namespace gyrus::test
