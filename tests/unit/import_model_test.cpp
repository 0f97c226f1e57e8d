#include "import/model.h"

#include <filesystem>
#include <fstream>

#include "import/safetensors.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

namespace fs = std::filesystem;

const ByteVector& list() {
  static const ByteVector bytes = json_bytes(make_layer_list(3));
  return bytes;
}
const ByteVector& safetensors() {
  static const ByteVector bytes = make_safetensors(make_meshnet_weights(3));
  return bytes;
}
const ByteVector& torch_zip() {
  static const ByteVector bytes = make_torch_zip(make_meshnet_weights(3));
  return bytes;
}

Model load(std::map<std::string, ByteVector> files, const std::string& main = "") {
  return load_model(ModelFiles{"tiny", "dir/tiny", std::move(files), main});
}

TEST(LoadModel, RecognisesFormatsByContent) {
  EXPECT_EQ(load({{"model.json", list()}, {"model.pth", torch_zip()}}).format, "layer list + torch zip");
  EXPECT_EQ(load({{"model.json", list()}, {"model.pth", safetensors()}}).format, "layer list + safetensors");
  EXPECT_EQ(load({{"model.json", list()}, {"w.bin", torch_zip()}}).format, "layer list + torch zip");
  EXPECT_EQ(load({{"net.json", list()}, {"w", safetensors()}}).format, "layer list + safetensors");
  const TfjsModel tfjs = make_tfjs();
  EXPECT_EQ(load({{"x.txt", json_bytes(tfjs.json)}, {"model.bin", tfjs.weights}}).format, "tfjs layers model");
}

TEST(LoadModel, DescribesTheNetwork) {
  const Model model = load({{"model.json", list()}, {"model.pth", torch_zip()}});
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.path, "dir/tiny");
  EXPECT_EQ(model.input_channels, 1);
  EXPECT_EQ(model.classes, 3);
  EXPECT_EQ(model.spatial_rank, 3);
  EXPECT_EQ(model.parameters, 2 * 27 + 2 + 4 * 27 + 2 + 6 + 3);
  EXPECT_EQ(model.receptive_field, 1 + 2 * 1 + 2 * 2);
  ASSERT_EQ(model.layers.size(), 3u);
  EXPECT_EQ(model.layers[1].name, "model.2");
  EXPECT_EQ(model.layers[1].kind, "conv3d");
  EXPECT_EQ(model.layers[1].activation, "relu");
  EXPECT_EQ(model.layers[1].kernel, (std::vector<int64_t>{3, 3, 3}));
  EXPECT_EQ(model.layers[1].dilation, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(model.layers[1].pads, (std::vector<int64_t>{2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(model.layers[2].activation, "");
}

TEST(LoadModel, CountsStridesIntoTheReceptiveField) {
  const nlohmann::json config = {
      {"filters", 1}, {"kernel_size", 3}, {"strides", 2}, {"padding", "same"}, {"use_bias", false}};
  const TfjsModel tfjs =
      make_tfjs(1, {keras_layer("Conv3D", "a", config, {"image"}), keras_layer("Conv3D", "b", config, {"a"})},
                {ramp("a/kernel", {3, 3, 3, 1, 1}), ramp("b/kernel", {3, 3, 3, 1, 1})});
  const Model model = load({{"model.json", json_bytes(tfjs.json)}, {"model.bin", tfjs.weights}});
  EXPECT_EQ(model.receptive_field, 1 + 2 + 2 * 2);
  EXPECT_TRUE(model.layers[0].pads.empty());
  const Graph graph = model.build({9, 8, 7});
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{1, 1, 3, 2, 2}));
}

TEST(LoadModel, BuildsForAnyExtents) {
  const Model model = load({{"model.json", list()}, {"model.pth", torch_zip()}});
  for (const Shape& spatial : {Shape{1, 1, 1}, Shape{4, 5, 6}, Shape{256, 256, 256}}) {
    const Graph graph = model.build(spatial);
    const Shape want = {1, 3, spatial[0], spatial[1], spatial[2]};
    EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, want);
  }
  expect_error(ErrorCode::InvalidInput, "wants 3 positive numbers", [&] { model.build({8, 8}); });
  expect_error(ErrorCode::InvalidInput, "wants 3 positive numbers", [&] { model.build({8, 0, 8}); });
}

TEST(LoadModel, ChoosesTheFilesThatTheJsonDescribes) {
  // A layer list takes the state dict, whatever tfjs weights lie beside it, and the other way round.
  const TfjsModel tfjs = make_tfjs();
  const std::map<std::string, ByteVector> both = {{"model.json", list()},
                                                  {"model.json.tfjs.bak", json_bytes(tfjs.json)},
                                                  {"model.pth", safetensors()},
                                                  {"model.bin", tfjs.weights},
                                                  {"colormap.json", to_bytes("{\"R\": [0]}")}};
  EXPECT_EQ(load(both).format, "layer list + safetensors");
  EXPECT_EQ(load(both, "model.pth").format, "layer list + safetensors");
  EXPECT_EQ(load(both, "model.json.tfjs.bak").format, "tfjs layers model");
  // Several state dicts: the one named like the list, or the one that the user named.
  std::map<std::string, ByteVector> two = {
      {"model.json", list()}, {"model.pth", safetensors()}, {"old.pth", torch_zip()}};
  EXPECT_EQ(load(two).format, "layer list + safetensors");
  EXPECT_EQ(load(two, "old.pth").format, "layer list + torch zip");
  two["model.pt"] = torch_zip();
  expect_error(ErrorCode::InvalidModel, "several weights beside it", [&] { load(two); });
}

TEST(LoadModel, SaysWhatIsWrongWithTheFolder) {
  const auto refused = [](ErrorCode code, const std::string& part, const std::map<std::string, ByteVector>& files,
                          const std::string& main = "") { expect_error(code, part, [&] { load(files, main); }); };
  refused(ErrorCode::InvalidModel, "[dir/tiny] no model in it", {});
  refused(ErrorCode::InvalidModel, "[dir/tiny/model.pth] weights alone", {{"model.pth", torch_zip()}});
  refused(ErrorCode::InvalidModel, "weights alone", {{"model.pth", safetensors()}}, "model.pth");
  refused(ErrorCode::InvalidModel, "[dir/tiny/model.json] no weights", {{"model.json", list()}});
  refused(ErrorCode::InvalidModel, "no weights", {{"model.json", list()}, {"model.pth", to_bytes("PK")}});
  refused(ErrorCode::InvalidModel, "neither a torch zip nor safetensors",
          {{"model.json", list()}, {"model.pth", to_bytes("PK")}}, "model.pth");
  refused(ErrorCode::InvalidModel, "neither a tfjs layers model", {{"model.json", to_bytes("{}")}});
  refused(ErrorCode::InvalidModel, "[dir/tiny/model.json] not valid JSON", {{"model.json", to_bytes("{]")}});
  refused(ErrorCode::InvalidModel, "several models", {{"a.json", list()}, {"b.json", list()}});
  refused(ErrorCode::Io, "no file 'x'", {}, "x");
  const ByteVector legacy = to_bytes(std::string_view("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15));
  refused(ErrorCode::Unsupported, "[dir/tiny/model.pth] written in torch's old format",
          {{"model.json", list()}, {"model.pth", legacy}});
}

TEST(LoadModel, RefusesEveryTruncation) {
  expect_every_truncation_refused(list(), [](const ByteVector& part) {
    load({{"model.json", part}, {"model.pth", torch_zip()}});
  });
  expect_every_truncation_refused(torch_zip(), [](const ByteVector& part) {
    load({{"model.json", list()}, {"model.pth", part}});
  });
  expect_every_truncation_refused(safetensors(), [](const ByteVector& part) {
    load({{"model.json", list()}, {"model.pth", part}});
  });
}

TEST(LoadModel, SurvivesEveryDamage) {
  const auto build = [](const Model& model) { model.build({8, 8, 8}); };
  read_every_damage(list(), [&](const ByteVector& part) {
    build(load({{"model.json", part}, {"model.pth", torch_zip()}}));
  });
  read_every_damage(safetensors(), [&](const ByteVector& part) {
    build(load({{"model.json", list()}, {"model.pth", part}}));
  });
}

class ModelFolder : public testing::Test {
 protected:
  ModelFolder() : root_(fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "tiny");
  }
  ~ModelFolder() override { fs::remove_all(root_); }
  void write(const std::string& name, const ByteVector& bytes) const {
    std::ofstream(root_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string path(const std::string& name) const { return (root_ / name).string(); }
  fs::path root_;
};

TEST_F(ModelFolder, LoadsByFolderOrFile) {
  write("tiny/model.json", list());
  write("tiny/model.pth", torch_zip());
  write("tiny/volume.nii.gz", to_bytes("not a model"));
  for (const char* name : {"tiny", "tiny/", "tiny/model.json", "tiny/model.pth"}) {
    SCOPED_TRACE(name);
    const Model model = load_model(path(name));
    EXPECT_EQ(model.name, "tiny");
    EXPECT_EQ(model.format, "layer list + torch zip");
  }
  write("tiny/other.json", list());
  EXPECT_EQ(load_model(path("tiny/other.json")).name, "other");
}

TEST_F(ModelFolder, NamesThePathInErrors) {
  expect_error(ErrorCode::Io, "[" + path("nothing") + "] no such file or folder", [&] { load_model(path("nothing")); });
  expect_error(ErrorCode::Io, "neither a file nor a folder", [] { load_model(std::string("/dev/null")); });
  expect_error(ErrorCode::InvalidModel, "[" + path("tiny") + "] no model in it", [&] { load_model(path("tiny")); });
  write("tiny/model.json", to_bytes("{"));
  expect_error(ErrorCode::InvalidModel, "[" + path("tiny/model.json") + "] not valid JSON",
               [&] { load_model(path("tiny")); });
}

}  // namespace
}  // namespace gyrus::test
