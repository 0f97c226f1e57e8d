// Where windows lie and what they weigh, in MONAI's way; and what a manifest of an ONNX model may say.
#include <gtest/gtest.h>

#include "core/error.h"
#include "engine/known_models.h"
#include "engine/manifest.h"
#include "engine/windows.h"
#include "support/model_writer.h"
#include "support/onnx_writer.h"

namespace gyrus::test {
namespace {

using namespace onnx_file;

// Numbers of MONAI's dense_patch_slices.
TEST(Windows, StartWhereMonaiHasThem) {
  EXPECT_EQ(window_starts(256, 96, 0.25), (std::vector<int64_t>{0, 72, 144, 160}));
  EXPECT_EQ(window_starts(100, 96, 0.25), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(window_starts(96, 96, 0.5), (std::vector<int64_t>{0}));
  EXPECT_EQ(window_starts(155, 128, 0.5), (std::vector<int64_t>{0, 27}));
  EXPECT_EQ(window_starts(240, 96, 0.625), (std::vector<int64_t>{0, 36, 72, 108, 144}));
  EXPECT_EQ(window_starts(10, 4, 0.9), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(window_starts(33, 32, 0), (std::vector<int64_t>{0, 1}));
  const std::vector<Start> all = all_windows({33, 32, 40}, {32, 32, 32}, {0, 0, 0.75});
  EXPECT_EQ(all, (std::vector<Start>{{0, 0, 0}, {0, 0, 8}, {1, 0, 0}, {1, 0, 8}}));
}

// Numbers of MONAI's compute_importance_map with sigma_scale 0.125.
TEST(Windows, WeighAsMonaiHasIt) {
  const Tensor weights = window_weights({4, 6, 9}, Blend::Gaussian, 0.125);
  ASSERT_EQ(weights.shape, (Shape{1, 1, 4, 6, 9}));
  const auto at = [&](int64_t a, int64_t b, int64_t c) { return weights.as<float>()[(a * 6 + b) * 9 + c]; };
  constexpr float kRounding = 1e-7f;
  EXPECT_FLOAT_EQ(at(0, 0, 0), 0.001f);
  EXPECT_FLOAT_EQ(at(3, 5, 8), 0.001f);
  EXPECT_NEAR(at(1, 2, 4), 0.4856717884540558f, kRounding);
  EXPECT_NEAR(at(2, 3, 3), 0.32716718316078186f, kRounding);
  EXPECT_NEAR(at(1, 1, 2), 0.016903290525078773f, kRounding);
  EXPECT_NEAR(at(0, 2, 4), 0.008895388804376125f, kRounding);
  const Tensor ones = window_weights({2, 3, 4}, Blend::Constant, 0.125);
  for (int64_t i = 0; i < ones.size(); ++i) EXPECT_EQ(ones.as<float>()[i], 1);
}

TEST(Windows, PaddingIsHalvedWithTheOddVoxelBehind) {
  OnnxVolumes onnx;
  onnx.patch = {16, 16, 16};
  const Padded padded = padded_extents(onnx, {20, 13, 16});
  EXPECT_EQ(padded.extents, (Shape{20, 16, 16}));
  EXPECT_EQ(padded.before, (Start{0, 1, 0}));
  onnx.patch = {};
  onnx.multiple = 16;
  EXPECT_EQ(padded_extents(onnx, {20, 13, 16}).extents, (Shape{32, 16, 16}));
}

// A pointwise convolution from `channels` to `classes`.
std::string pointwise(int64_t channels, int64_t classes, const std::vector<int64_t>& shape, float weight = 1) {
  const std::vector<float> weights(static_cast<size_t>(channels * classes), weight);
  return model(node("Conv", {"x", "w"}, {"y"}) +
               initializer(tensor("w", Float, {classes, channels, 1, 1, 1}, weights)) + input("x", Float, shape) +
               output("y"));
}

DescribedModel described(const std::string& onnx, const std::string& manifest) {
  onnx::ModelFile file;
  file.path = "folder/own.onnx";
  const ByteVector bytes = to_bytes(onnx);
  file.bytes.assign(bytes.begin(), bytes.end());
  file.model = onnx::read_model(bytes_of(file.bytes), file.path);
  return describe_onnx(std::move(file), "own", {{kManifestName, to_bytes(manifest)}});
}

constexpr const char* kAnySize = R"({"normalize": "zscore"})";

TEST(OnnxManifest, SaysWhatTheFileDoesNot) {
  const DescribedModel own = described(pointwise(2, 3, {1, 2, -1, -1, -1}), R"({
    "title": "T", "channels": ["T1w", "FLAIR"], "normalize": ["zscore:nonzero", "window:-100,300,-1,1"],
    "orientation": "RAS", "spacing": [1, 1, 2.5], "patch": [32, 48, 16], "overlap": 0.5, "blend": "gaussian",
    "labels": {"background": 0, "lesion": 2, "brain": 1}, "components": "largest", "axes": "zyx"})");
  EXPECT_EQ(own.model.format, "ONNX");
  EXPECT_EQ(own.model.input_channels, 2);
  EXPECT_EQ(own.model.classes, 3);
  EXPECT_EQ(own.model.onnx->patch, (Shape{32, 48, 16}));
  EXPECT_EQ(own.model.onnx->overlap[1], 0.5);
  EXPECT_EQ(own.model.onnx->blend, Blend::Gaussian);
  EXPECT_TRUE(own.model.onnx->reversed);
  EXPECT_EQ(own.manifest.channels[1].name, "FLAIR");
  EXPECT_EQ(normalize_text(own.manifest.channels[1].normalize), "window:-100,300,-1,1");
  EXPECT_EQ(own.manifest.labels.entries[2].name, "lesion");
  EXPECT_EQ(own.manifest.grid.orientation, "RAS");
  EXPECT_EQ(own.manifest.grid.spacing[2], 2.5);
  EXPECT_TRUE(own.manifest.largest_component);
  EXPECT_FALSE(own.manifest.conform);
}

TEST(OnnxManifest, PatchIsTheFilesUnlessItIsGiven) {
  EXPECT_EQ(described(pointwise(1, 2, {1, 1, 8, 9, 10}), kAnySize).model.onnx->patch, (Shape{8, 9, 10}));
  EXPECT_EQ(described(pointwise(1, 2, {1, 1, 8, 9, 10}), R"({"normalize": "none", "patch": 12})").model.onnx->patch,
            (Shape{12, 12, 12}));
  EXPECT_TRUE(described(pointwise(1, 2, {-1, 1, 8, 9, 10}), R"({"normalize": "none", "patch": "whole"})")
                  .model.onnx->patch.empty());
}

TEST(OnnxManifest, ClassesFollowFromTheScores) {
  const auto classes = [](int64_t channels, const std::string& more) {
    return described(pointwise(1, channels, {1, 1, -1, -1, -1}), R"({"normalize": "none", )" + more + "}")
        .model.classes;
  };
  EXPECT_EQ(classes(4, R"("scores": "logits")"), 4);
  EXPECT_EQ(classes(4, R"("scores": "probabilities")"), 4);
  EXPECT_EQ(classes(1, R"("scores": "sigmoid")"), 2);
  EXPECT_EQ(classes(3, R"("scores": "sigmoided", "threshold": 0.3)"), 4);
  EXPECT_EQ(classes(1, R"("scores": "labels", "labels": ["a", "b", "c"])"), 3);
}

TEST(OnnxManifest, HashIsOfTheFile) {
  const auto sum = [](float weight) {
    return weights_sha256(described(pointwise(1, 2, {1, 1, 8, 8, 8}, weight), kAnySize).model);
  };
  EXPECT_EQ(sum(1), sum(1));
  EXPECT_NE(sum(1), sum(2));
}

struct Bad {
  const char* manifest;
  const char* says;
};

TEST(OnnxManifest, BadOnesAreRefusedInALine) {
  const Bad table[] = {
      {"[]", "is no JSON object"},
      {"{}", "\"normalize\" is missing"},
      {R"({"normalise": "zscore"})", "\"normalise\" is no entry"},
      {R"({"normalize": "z-score"})", "is not none, minmax"},
      {R"({"normalize": "window:3,2"})", "is not none, minmax"},
      {R"({"normalize": "clip-zscore:1,2,3,0"})", "is not none, minmax"},
      {R"({"normalize": ["none", "none"]})", "2 texts for 1 channels"},
      {R"({"normalize": 3})", "neither a text nor a list"},
      {R"({"normalize": "none", "channels": 2})", "\"channels\" are 2, but the model takes float[1,1,"},
      {R"({"normalize": "none", "channels": 0})", "\"channels\" is no number from 1"},
      {R"({"normalize": "none", "patch": [16, 16]})", "\"patch\" is neither a number nor a list of three"},
      {R"({"normalize": "none", "patch": 0})", "\"patch\" is neither a number nor a list of three"},
      {R"({"normalize": "none", "patch": 16.5})", "not in whole voxels"},
      {R"({"normalize": "none", "patch": 16, "overlap": 1})", "\"overlap\" is neither"},
      {R"({"normalize": "none", "patch": 16, "blend": "linear"})", "\"linear\" is none of constant, gaussian"},
      {R"({"normalize": "none", "overlap": 0.5})", "there is no \"patch\""},
      {R"({"normalize": "none", "patch": 16, "multiple": 8})", "\"multiple\" is for networks that take the whole"},
      {R"({"normalize": "none", "spacing": [1, 1, 0]})", "\"spacing\" is neither"},
      {R"({"normalize": "none", "orientation": "RAX"})", "not three letters"},
      {R"({"normalize": "none", "orientation": "RLS"})", "not three letters"},
      {R"({"normalize": "none", "conform": true, "spacing": 1})", "\"conform\" says the grid"},
      {R"({"normalize": "none", "axes": "yxz"})", "\"yxz\" is none of xyz, zyx"},
      {R"({"normalize": "none", "input": "image"})", "the model has no \"image\"; it has x"},
      {R"({"normalize": "none", "output": "z"})", "the model has no \"z\"; it has y"},
      {R"({"normalize": "none", "scores": "argmax"})", "is none of logits, probabilities"},
      {R"({"normalize": "none", "scores": "labels"})", "but the model gives 2 numbers a voxel"},
      {R"({"normalize": "none", "labels": ["a", "b", "c"]})", "has 3 names; the model has 2 classes"},
      {R"({"normalize": "none", "labels": {"a": 1, "b": 1}})", "has no number of its own"},
      {R"({"normalize": "none", "components": "all"})", "\"all\" is none of keep, largest"},
      {R"({"normalize": "none", "threshold": 2})", "\"threshold\" is no number from 0 to 1"},
  };
  for (const Bad& bad : table) {
    SCOPED_TRACE(bad.manifest);
    try {
      described(pointwise(1, 2, {1, 1, -1, -1, -1}), bad.manifest);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.code(), ErrorCode::InvalidModel) << message;
      EXPECT_EQ(message.rfind("[folder/gyrus.json] ", 0), 0u) << message;
      EXPECT_NE(message.find(bad.says), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
}

TEST(OnnxManifest, FilesThatAreNoNetworksForVolumesAreRefused) {
  const auto refused = [](const std::string& onnx, const std::string& says) {
    try {
      described(onnx, R"({"normalize": "none"})");
      ADD_FAILURE() << "taken; wanted: " << says;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  };
  refused(pointwise(1, 1, {1, 1, -1, -1, -1}), "gives one number a voxel");
  refused(model(node("Relu", {"x"}, {"y"}) + input("x", Float, {1, 3, 64, 64}) + output("y")), "needs volumes");
  refused(
      model(node("Add", {"a", "b"}, {"y"}) + input("a", Float, {1, 1, 8, 8, 8}) + input("b", Float, {1}) + output("y")),
      "has 2 inputs (a, b)");
  refused(model(node("ReduceMax", {"x"}, {"y"}) + input("x", Float, {1, 2, 8, 8, 8}) + output("y")),
          "segmentation needs [1, classes]");
  refused(model(node("Relu", {"x"}, {"y"}) + node("Neg", {"x"}, {"z"}) + input("x", Float, {1, 2, 8, 8, 8}) +
                output("y") + output("z")),
          "\"output\" must say which of y, z");
  EXPECT_THROW(
      described(model(node("Relu", {"x"}, {"y"}) + input("x", Int64, {1, 2, 8, 8, 8}) + output("y")), kAnySize), Error);
  onnx::ModelFile file;
  file.path = "own.onnx";
  try {
    describe_onnx(std::move(file), "own", {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("write a gyrus.json beside it"), std::string::npos) << error.what();
  }
}

TEST(OnnxManifest, ItsEntriesAreNotForModelsOfLayers) {
  const Model layers = load_model(ModelFiles{
      "a",
      "",
      {{"model.json", json_bytes(make_layer_list(3))}, {"model.pth", make_safetensors(make_meshnet_weights(3))}},
      ""});
  for (const char* manifest : {R"({"patch": 16})", R"({"normalize": "zscore"})"}) {
    try {
      manifest_of(layers, {{kManifestName, to_bytes(manifest)}});
      ADD_FAILURE() << manifest;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("ONNX models"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace gyrus::test
