#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "import/model.h"
#include "reference/reference.h"

// The seven real models, where the shared data are at hand.

namespace gyrus {
namespace {

namespace fs = std::filesystem;

fs::path data_folder() {
  const char* given = std::getenv("GYRUS_TEST_DATA");
  return given != nullptr ? fs::path(given) : fs::path(GYRUS_SOURCE_DIR).parent_path() / "shared" / "data";
}

struct RealModel {
  const char* name;
  const char* format;
  size_t layers;
  int64_t channels, classes, parameters, receptive_field;
  const char* norm;
  const char* activation;
  bool hidden_bias;
};

// Parameters follow from channels and classes; the receptive field from the dilations.
const RealModel kModels[] = {
    {"mindgrab", "layer list + torch zip", 26, 15, 2, 146237, 311, "group_norm", "gelu", false},
    {"model5_gw_ae", "layer list + safetensors", 10, 5, 3, 5598, 93, "", "relu", true},
    {"model11_gw_ae", "tfjs layers model", 9, 11, 3, 23290, 49, "", "relu", true},
    {"model18cls", "layer list + safetensors", 10, 21, 18, 96408, 93, "", "elu", true},
    {"model20chan3cls", "tfjs layers model", 10, 20, 3, 87183, 93, "", "elu", true},
    {"model21_104class", "layer list + safetensors", 9, 21, 104, 86372, 91, "", "relu", true},
    {"model30chan18cls", "tfjs layers model", 10, 30, 18, 196038, 93, "", "elu", true},
};

void PrintTo(const RealModel& model, std::ostream* out) { *out << model.name; }

class RealModels : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    if (!fs::exists(data_folder() / "models")) GTEST_SKIP() << "no test data at " << data_folder();
  }
  static std::string path(const std::string& name) { return (data_folder() / "models" / name).string(); }
};

TEST_P(RealModels, LoadAsDocumented) {
  const RealModel& want = GetParam();
  const Model model = load_model(path(want.name));
  EXPECT_EQ(model.name, want.name);
  EXPECT_EQ(model.format, want.format);
  EXPECT_EQ(model.input_channels, 1);
  EXPECT_EQ(model.spatial_rank, 3);
  EXPECT_EQ(model.classes, want.classes);
  EXPECT_EQ(model.parameters, want.parameters);
  EXPECT_EQ(model.receptive_field, want.receptive_field);
  ASSERT_EQ(model.layers.size(), want.layers);
  for (size_t i = 0; i < want.layers; ++i) {
    SCOPED_TRACE(i);
    const LayerInfo& layer = model.layers[i];
    const bool first = i == 0, last = i + 1 == want.layers;
    const int64_t kernel = last ? 1 : 3, out = last ? want.classes : want.channels, in = first ? 1 : want.channels;
    EXPECT_EQ(layer.kind, "conv3d");
    EXPECT_EQ(layer.weight_shape, (Shape{out, in, kernel, kernel, kernel}));
    EXPECT_EQ(layer.norm, last ? "" : want.norm);
    EXPECT_EQ(layer.activation, last ? "" : want.activation);
    EXPECT_EQ(layer.parameters, element_count(layer.weight_shape) + (last || want.hidden_bias ? out : 0));
    const int64_t pad = (kernel - 1) / 2 * layer.dilation[0];
    EXPECT_EQ(layer.pads, std::vector<int64_t>(6, pad));
  }
}

TEST_P(RealModels, BuildAVerifiedGraph) {
  const RealModel& want = GetParam();
  const Graph graph = load_model(path(want.name)).build({8, 8, 8});
  verify(graph);
  ASSERT_EQ(graph.inputs().size(), 1u);
  ASSERT_EQ(graph.outputs().size(), 1u);
  EXPECT_EQ(graph.inputs()[0].name, "image");
  EXPECT_EQ(graph.outputs()[0].name, "logits");
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{1, want.classes, 8, 8, 8}));
}

std::string model_name(const testing::TestParamInfo<RealModel>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Import, RealModels, testing::ValuesIn(kModels), model_name);

using RealFiles = RealModels;

// The same network from safetensors and from the tfjs topology that lies beside it.
TEST_F(RealFiles, TheTfjsTopologyOfModel18clsGivesTheSameLogits) {
  const Model list = load_model(path("model18cls"));
  const Model tfjs = load_model(path("model18cls/model.json.tfjs.bak"));
  EXPECT_EQ(tfjs.format, "tfjs layers model");
  EXPECT_EQ(tfjs.name, "model18cls");
  const Shape spatial = {4, 5, 3};
  Tensor image(DType::F32, {1, 1, 4, 5, 3});
  for (int64_t i = 0; i < image.size(); ++i) set(image, i, static_cast<double>(i * 7 % 11) / 11);
  const RefTensor a = reference::run(list.build(spatial), {{"image", image}}).at("logits");
  const RefTensor b = reference::run(tfjs.build(spatial), {{"image", image}}).at("logits");
  ASSERT_EQ(a.shape, b.shape);
  constexpr double kSummationOrder = 1e-12;  // the same doubles, at most added in another order
  for (size_t i = 0; i < a.data.size(); ++i) ASSERT_NEAR(a.data[i], b.data[i], kSummationOrder);
}

TEST_F(RealFiles, WeightsNamedByTheUserUseTheListBeside) {
  const Model model = load_model(path("mindgrab/model.pth"));
  EXPECT_EQ(model.name, "mindgrab");
  EXPECT_EQ(model.parameters, 146237);
}

}  // namespace
}  // namespace gyrus
