// Models are known by their weights, whatever their folder is called.
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "engine/known_models.h"
#include "engine/model_store.h"
#include "gyrus/gyrus.h"
#include "import/network.h"
#include "support/model_writer.h"
#include "support/test_data.h"

namespace gyrus::test {
namespace {

Model tiny_model(const std::string& name, const ByteVector& weights) {
  return load_model(ModelFiles{name, "", {{"model.json", json_bytes(make_layer_list(3))}, {"model.pth", weights}}, ""});
}

// CMakeLists.txt has the version; what else names it follows.
TEST(Version, IsTheSameEverywhere) {
  const auto first_after = [](const char* file, const std::string& mark) {
    const std::vector<uint8_t> bytes = read_bytes(std::filesystem::path(GYRUS_SOURCE_DIR) / file);
    const std::string text(bytes.begin(), bytes.end());
    const size_t at = text.find(mark);
    return at == std::string::npos
               ? ""
               : text.substr(at + mark.size(), text.find_first_of("\"\n", at + mark.size()) - at - mark.size());
  };
  EXPECT_EQ(first_after("CHANGELOG.md", "\n## "), version());
  EXPECT_EQ(first_after("web/package.json", "\"version\": \""), version());
  EXPECT_EQ(first_after("package.json", "\"version\": \""), version());
  EXPECT_EQ(first_after("CITATION.cff", "\nversion: "), version());
}

TEST(KnownModels, HashIsOfTheWeightsAndNotOfTheFile) {
  const std::vector<NamedFloats> weights = make_meshnet_weights(3);
  const std::string sum = weights_sha256(tiny_model("a", make_safetensors(weights)));
  EXPECT_EQ(weights_sha256(tiny_model("b", make_torch_zip(weights))), sum);
  for (size_t changed = 0; changed < weights.size(); ++changed) {
    std::vector<NamedFloats> other = weights;
    other[changed].values.back() += 1;
    EXPECT_NE(weights_sha256(tiny_model("a", make_safetensors(other))), sum) << weights[changed].name;
  }
}

// Statistics and affine parts of norms, biases, and what no tensor says.
TEST(KnownModels, HashTellsNetworksApartThatDifferInANorm) {
  const auto model_of = [](float mean, float gamma, double eps, int64_t dilation, float bias) {
    Network network("test", 3, 1);
    const auto tensor = [](const std::string& name, Shape shape, float value) {
      std::vector<float> values(static_cast<size_t>(element_count(shape)), value);
      return NamedTensor{name, std::make_shared<const Tensor>(Tensor::from_floats(std::move(shape), values))};
    };
    const size_t x = network.conv(0, {"conv",
                                      tensor("weight", {2, 1, 3, 3, 3}, 0.5f),
                                      tensor("bias", {2}, bias),
                                      {1, 1, 1},
                                      {dilation, dilation, dilation},
                                      std::vector<int64_t>(6, dilation)});
    network.batch_norm(x, "norm", tensor("mean", {2}, mean), tensor("variance", {2}, 1), tensor("gamma", {2}, gamma),
                       tensor("beta", {2}, 0), eps);
    Model model;
    model.network = std::make_shared<const Network>(std::move(network));
    return weights_sha256(model);
  };
  const std::string sum = model_of(0, 1, 1e-3, 1, 0);
  EXPECT_EQ(model_of(0, 1, 1e-3, 1, 0), sum);
  EXPECT_NE(model_of(0.25f, 1, 1e-3, 1, 0), sum) << "mean";
  EXPECT_NE(model_of(0, 2, 1e-3, 1, 0), sum) << "gamma";
  EXPECT_NE(model_of(0, 1, 1e-5, 1, 0), sum) << "epsilon";
  EXPECT_NE(model_of(0, 1, 1e-3, 2, 0), sum) << "dilation";
  EXPECT_NE(model_of(0, 1, 1e-3, 1, 1), sum) << "bias";
}

TEST(KnownModels, NameAloneIsNotBelieved) {
  const Model model = tiny_model("mindgrab", make_safetensors(make_meshnet_weights(3)));
  EXPECT_EQ(recognise(model), nullptr);
  const Manifest manifest = manifest_of(model, SideFiles{});
  EXPECT_EQ(normalize_text(manifest.normalize), "minmax");
  ASSERT_EQ(manifest.notices.size(), 1u) << "a folder with the name of a known model and other weights in it";
  EXPECT_NE(manifest.notices[0].find("mindgrab"), std::string::npos);
  const SideFiles own = {{kManifestName, to_bytes(R"({"normalize": "quantile:0.1,0.9"})")}};
  EXPECT_TRUE(manifest_of(model, own).notices.empty());
}

TEST(KnownModels, RealOnesAreRecognisedUnderAnyName) {
  const std::filesystem::path data = test_data();
  if (data.empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  for (const KnownModel& known : known_models()) {
    Model model = load_model((data / "models" / known.name).string());
    EXPECT_EQ(model.parameters, known.parameters) << known.name;
    EXPECT_EQ(weights_sha256(model), known.weights) << known.name;
    model.name = "brainmask";
    const Manifest manifest = manifest_of(model);
    EXPECT_EQ(manifest.title, known.title);
    EXPECT_EQ(normalize_text(manifest.normalize), known.normalize);
    EXPECT_EQ(manifest.largest_component, known.name == "mindgrab");
    EXPECT_TRUE(manifest.notices.empty());
  }
}

// model18cls is there twice: as a state dict and as a tfjs model.
TEST(KnownModels, HashIsThatOfEveryFormat) {
  const std::filesystem::path folder = test_data() / "models/model18cls";
  if (test_data().empty()) GTEST_SKIP() << "the public test data is not here; set GYRUS_TEST_DATA";
  ModelFiles files{"twin", "", {}, ""};
  files.files["model.json"] = read_file((folder / "model.json.tfjs.bak").string());
  files.files["model.bin"] = read_file((folder / "model.bin").string());
  const Model model = load_model(files);
  EXPECT_EQ(model.format, "tfjs layers model");
  EXPECT_EQ(weights_sha256(model), weights_sha256(load_model(folder.string())));
}

}  // namespace
}  // namespace gyrus::test
