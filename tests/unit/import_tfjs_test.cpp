#include "import/tfjs.h"

#include <cmath>
#include <limits>

#include "reference/reference.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

Network read(const json& document, const FileMap& files) {
  const ByteVector text = json_bytes(document);
  return read_tfjs(parse_json(bytes_of(text), "model.json"), files, "model.bin", "model.json");
}

Network read(const TfjsModel& model) { return read(model.json, {{"model.bin", model.weights}}); }

json& layers_of(json& document) { return document["modelTopology"]["model_config"]["config"]["layers"]; }
json& config_of(json& document, size_t layer) { return layers_of(document)[layer]["config"]; }
json& weights_of(json& document) { return document["weightsManifest"][0]["weights"]; }

RefTensor run(const Network& network, const Shape& spatial) {
  Shape shape = {1, network.channels(network.image())};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  Tensor image(DType::F32, shape);
  for (int64_t i = 0; i < image.size(); ++i) set(image, i, static_cast<double>(i * 7 % 23) / 8 - 1);
  return reference::run(network.build(spatial), {{"image", image}}).at("logits");
}

// A model of one unary layer over an image of two channels.
TfjsModel one_layer(const std::string& class_name, const json& config, const std::vector<NamedFloats>& weights = {}) {
  return make_tfjs(2, {keras_layer(class_name, "x", config, {"image"})}, weights);
}

TEST(Tfjs, ReadsAFunctionalModel) {
  const Network network = read(make_tfjs());
  EXPECT_EQ(ops(network), (std::vector<std::string>{"conv", "elu", "conv"}));
  EXPECT_EQ(network.channels(network.output()), 3);
  EXPECT_EQ(network.steps()[1].weights[0].tensor->shape, (Shape{2, 1, 3, 3, 3}));
  EXPECT_EQ(run(network, {4, 5, 6}).shape, (Shape{1, 3, 4, 5, 6}));
}

TEST(Tfjs, TurnsKernelsRound) {
  // kernel[kx][ky][kz][in][out] must become weight[out][in][kx][ky][kz].
  const NamedFloats kernel = ramp("x/kernel", {2, 3, 1, 2, 4});
  const Network network =
      read(one_layer("Conv3D", {{"filters", 4}, {"kernel_size", {2, 3, 1}}, {"use_bias", false}}, {kernel}));
  const Tensor& weight = *network.steps()[1].weights[0].tensor;
  ASSERT_EQ(weight.shape, (Shape{4, 2, 2, 3, 1}));
  for (int64_t o = 0; o < 4; ++o) {
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t k = 0; k < 6; ++k) {
        EXPECT_EQ(weight.as<float>()[(o * 2 + i) * 6 + k], kernel.values[static_cast<size_t>((k * 2 + i) * 4 + o)]);
      }
    }
  }
}

TEST(Tfjs, PadsSameAsTensorFlow) {
  const auto pads = [](int kernel, int stride, int dilation, const Shape& spatial) {
    const int64_t k = kernel;
    const json config = {{"filters", 1},      {"kernel_size", kernel}, {"strides", stride}, {"dilation_rate", dilation},
                         {"padding", "same"}, {"use_bias", false}};
    const Graph graph = read(one_layer("Conv3D", config, {ramp("x/kernel", {k, k, k, 2, 1})})).build(spatial);
    return graph.nodes()[0].attrs.integers("pads");
  };
  // TensorFlow: total = max((ceil(n / s) - 1) · s + (k - 1) · d + 1 - n, 0), the smaller half first.
  EXPECT_EQ(pads(3, 1, 4, {8, 9, 10}), (std::vector<int64_t>{4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(pads(2, 1, 1, {8, 9, 10}), (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(pads(3, 2, 1, {8, 9, 2}), (std::vector<int64_t>{0, 1, 0, 1, 1, 1}));
  EXPECT_EQ(pads(1, 2, 1, {8, 9, 2}), (std::vector<int64_t>{0, 0, 0, 0, 0, 0}));
}

TEST(Tfjs, ReadsEveryLayerItKnows) {
  const auto op = [](const std::string& class_name, const json& config, const std::vector<NamedFloats>& weights = {}) {
    const std::vector<std::string> all = ops(read(one_layer(class_name, config, weights)));
    return all.empty() ? "" : all.back();
  };
  EXPECT_EQ(op("ReLU", {{"max_value", nullptr}}), "relu");
  EXPECT_EQ(op("ReLU", {{"negative_slope", 0.25}}), "leaky_relu");
  EXPECT_EQ(op("LeakyReLU", json::object()), "leaky_relu");
  EXPECT_EQ(op("ELU", {{"alpha", 0.5}}), "elu");
  EXPECT_EQ(op("Softmax", {{"axis", -1}}), "softmax");
  EXPECT_EQ(op("Dropout", {{"rate", 0.5}}), "");
  EXPECT_EQ(op("SpatialDropout3D", {{"rate", 0.5}}), "");
  for (const char* name : {"relu", "elu", "gelu", "sigmoid", "tanh", "softplus", "softmax", "silu", "leaky_relu"}) {
    EXPECT_EQ(op("Activation", {{"activation", name}}), name);
  }
  EXPECT_EQ(op("Activation", {{"activation", "linear"}}), "");
  EXPECT_EQ(op("ZeroPadding3D", {{"padding", {{1, 2}, {0, 3}, {4, 0}}}}), "pad");
  const std::vector<NamedFloats> norm = {
      ramp("x/gamma", {2}), ramp("x/beta", {2}), ramp("x/moving_mean", {2}), {"x/moving_variance", {2}, {1, 4}}};
  EXPECT_EQ(op("BatchNormalization", {{"axis", {4}}}, norm), "batch_norm");
}

TEST(Tfjs, PadsTheRightAxes) {
  const Graph graph = read(one_layer("ZeroPadding3D", {{"padding", {{1, 2}, {0, 3}, {4, 0}}}})).build({5, 6, 7});
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{1, 2, 8, 9, 11}));
  EXPECT_EQ(graph.nodes()[0].attrs.integers("pads"), (std::vector<int64_t>{0, 0, 1, 0, 4, 0, 0, 2, 3, 0}));
}

TEST(Tfjs, AppliesBatchNormWithoutScaleOrCentre) {
  const std::vector<NamedFloats> weights = {
      {"x/beta", {2}, {1, 2}}, {"x/moving_mean", {2}, {0.5f, 0}}, {"x/moving_variance", {2}, {4, 1}}};
  const Network network = read(one_layer("BatchNormalization", {{"scale", false}, {"epsilon", 0}}, weights));
  Tensor image(DType::F32, {1, 2, 1, 1, 1});
  image.as<float>()[0] = 3.5f;
  image.as<float>()[1] = 5;
  const RefTensor out = reference::run(network.build({1, 1, 1}), {{"image", image}}).at("logits");
  EXPECT_DOUBLE_EQ(out.data[0], (3.5 - 0.5) / 2 + 1);
  EXPECT_DOUBLE_EQ(out.data[1], 5 + 2);
}

TEST(Tfjs, JoinsBranchesWrittenInAnyOrder) {
  std::vector<json> layers = {keras_layer("Add", "sum", json::object(), {"a", "b"}),
                              keras_layer("Activation", "a", {{"activation", "relu"}}, {"image"}),
                              keras_layer("Activation", "b", {{"activation", "tanh"}}, {"image"}),
                              keras_layer("Concatenate", "out", {{"axis", -1}}, {"sum", "b", "image"})};
  const Network network = read(make_tfjs(2, layers, {}));
  EXPECT_EQ(network.channels(network.output()), 6);
  EXPECT_EQ(run(network, {2, 2, 2}).shape, (Shape{1, 6, 2, 2, 2}));

  layers[1] = keras_layer("Activation", "a", {{"activation", "relu"}}, {"out"});
  expect_error(ErrorCode::InvalidModel, "missing or reads it back", [&] { read(make_tfjs(2, layers, {})); });
  layers[1] = keras_layer("Activation", "a", {{"activation", "relu"}}, {"nowhere"});
  expect_error(ErrorCode::InvalidModel, "missing or reads it back", [&] { read(make_tfjs(2, layers, {})); });
  layers[1] = keras_layer("Activation", "b", {{"activation", "relu"}}, {"image"});
  expect_error(ErrorCode::InvalidModel, "", [&] { read(make_tfjs(2, layers, {})); });
}

TEST(Tfjs, ReadsSequentialModelsOfAnyRank) {
  const auto conv = [](size_t rank, const std::string& name, const json& shape) {
    json config = {{"name", name}, {"filters", 2}, {"kernel_size", std::vector<int>(rank, 3)}, {"padding", "same"}};
    if (!shape.is_null()) config["batch_input_shape"] = shape;
    return json{{"class_name", "Conv" + std::to_string(rank) + "D"}, {"config", config}};
  };
  for (const bool bare_list : {false, true}) {
    for (size_t rank = 1; rank <= 3; ++rank) {
      SCOPED_TRACE(rank);
      json shape = {nullptr};
      for (size_t i = 0; i < rank; ++i) shape.push_back(nullptr);
      shape.push_back(1);
      const json layers = {conv(rank, "a", shape), conv(rank, "b", nullptr)};
      TfjsModel model = make_tfjs();
      model.json["modelTopology"] = {{"class_name", "Sequential"},
                                     {"config", bare_list ? layers : json{{"name", "s"}, {"layers", layers}}}};
      Shape first(rank, 3), second(rank, 3);
      first.insert(first.end(), {1, 2});
      second.insert(second.end(), {2, 2});
      const TfjsModel weights =
          make_tfjs(1, {keras_layer("Dropout", "d", json::object(), {"image"})},
                    {ramp("s/a/kernel", first), ramp("s/a/bias", {2}), ramp("b/kernel", second), ramp("b/bias", {2})});
      model.json["weightsManifest"] = weights.json["weightsManifest"];
      model.weights = weights.weights;
      const Network network = read(model);
      EXPECT_EQ(network.spatial_rank(), rank);
      EXPECT_EQ(run(network, Shape(rank, 4)).shape.size(), rank + 2);
    }
  }
}

TEST(Tfjs, ReadsShardsOrOneFile) {
  TfjsModel model = make_tfjs();
  const Network whole = read(model);
  const auto cut = model.weights.begin() + 101;
  const FileMap shards = {{"s1", ByteVector(model.weights.begin(), cut)}, {"s2", ByteVector(cut, model.weights.end())}};
  model.json["weightsManifest"][0]["paths"] = {"s1", "s2"};
  EXPECT_EQ(run(read(model.json, shards), {3, 3, 3}).data, run(whole, {3, 3, 3}).data);
  EXPECT_EQ(run(read(model), {3, 3, 3}).data, run(whole, {3, 3, 3}).data);  // model.bin instead of the shards
  expect_error(ErrorCode::InvalidModel, "weight file 's2' is missing", [&] {
    read(model.json, {{"s1", shards.at("s1")}});
  });
  expect_error(ErrorCode::InvalidModel, "weight file 's1' is missing", [&] { read(model.json, {}); });
  model.json["weightsManifest"][0]["paths"] = std::vector<std::string>(1000, "s1");
  expect_error(ErrorCode::InvalidModel, "hold more than", [&] { read(model.json, shards); });
}

TEST(Tfjs, ReadsQuantisedWeights) {
  const auto values = [](const json& quantization, const ByteVector& bytes) {
    TfjsModel model = one_layer("Conv3D", {{"filters", 1}, {"kernel_size", 1}, {"use_bias", false}},
                                {ramp("x/kernel", {1, 1, 1, 2, 1})});
    weights_of(model.json)[0]["quantization"] = quantization;
    model.weights = bytes;
    const Network network = read(model);
    const Tensor& weight = *network.steps()[1].weights[0].tensor;
    return std::vector<float>(weight.as<float>(), weight.as<float>() + 2);
  };
  using Pair = std::vector<float>;
  const json affine = {{"dtype", "uint8"}, {"scale", 0.5}, {"min", -1}, {"original_dtype", "float32"}};
  EXPECT_EQ(values(affine, ByteWriter().u8(0).u8(255).out()), (Pair{-1, 126.5}));
  EXPECT_EQ(values({{"dtype", "uint16"}, {"scale", 2}, {"min", 1}}, ByteWriter().u16(3).u16(65535).out()),
            (Pair{7, 131071}));
  EXPECT_EQ(values({{"dtype", "float16"}}, ByteWriter().u16(0x3e00).u16(0xc100).out()), (Pair{1.5, -2.5}));
  expect_error(ErrorCode::InvalidModel, "'scale' is missing", [&] {
    values({{"dtype", "uint8"}, {"min", 0}}, ByteVector(2));
  });
  expect_error(ErrorCode::InvalidModel, "uint8, uint16 or float16", [&] {
    values({{"dtype", "int32"}}, ByteVector(8));
  });
  expect_error(ErrorCode::Unsupported, "dtype 'int4'", [&] { values({{"dtype", "int4"}}, ByteVector(8)); });
  expect_error(ErrorCode::InvalidModel, "holds infinity", [&] {
    values({{"dtype", "uint8"}, {"scale", 1e300}, {"min", 0}}, ByteWriter().u8(9).u8(9).out());
  });
}

TEST(Tfjs, NamesWhatItDoesNotKnow) {
  const auto refused = [](const std::string& part, const std::string& class_name, const json& config,
                          const std::vector<NamedFloats>& weights = {}) {
    expect_error(ErrorCode::Unsupported, part, [&] { read(one_layer(class_name, config, weights)); });
  };
  refused("layer 'x' of class 'MaxPooling3D': gyrus does not know this layer", "MaxPooling3D", json::object());
  refused("layer 'x' of class 'Conv2D': gyrus does not know this layer", "Conv2D", json::object());
  refused("layer 'x' of class 'Activation': unknown activation 'selu'", "Activation", {{"activation", "selu"}});
  refused("max_value is not supported", "ReLU", {{"max_value", 6}});
  refused("threshold is not supported", "ReLU", {{"threshold", 1}});
  refused("axis 1, which is not the channels", "Softmax", {{"axis", 1}});
  refused("axis 2, which is not the channels", "BatchNormalization", {{"axis", {2}}});
  refused("data_format 'channels_first'", "Conv3D", {{"data_format", "channels_first"}});
  refused("padding 'causal'", "Conv3D",
          {{"filters", 1}, {"kernel_size", 1}, {"padding", "causal"}, {"use_bias", false}},
          {ramp("x/kernel", {1, 1, 1, 2, 1})});
  refused("layer 'x' of class 'a?b'", "a\nb", json::object());
  refused("joins fewer than two", "Add", json::object());

  TfjsModel model = make_tfjs();
  model.json["format"] = "graph-model";
  expect_error(ErrorCode::Unsupported, "a tfjs graph model", [&] { read(model); });
  model = make_tfjs();
  model.json["modelTopology"] = {{"node", json::array()}, {"library", json::object()}};
  expect_error(ErrorCode::Unsupported, "a tfjs graph model", [&] { read(model); });
  model = make_tfjs();
  model.json["modelTopology"]["model_config"]["class_name"] = "MyModel";
  expect_error(ErrorCode::Unsupported, "model class 'MyModel'", [&] { read(model); });
  model = make_tfjs();
  layers_of(model.json)[1]["inbound_nodes"].push_back(layers_of(model.json)[1]["inbound_nodes"][0]);
  expect_error(ErrorCode::Unsupported, "used more than once", [&] { read(model); });
  model = make_tfjs();
  layers_of(model.json)[1]["inbound_nodes"] = {{{"args", json::array()}}};
  expect_error(ErrorCode::Unsupported, "as Keras 3 does", [&] { read(model); });
  model = make_tfjs();
  model.json["modelTopology"]["model_config"]["config"]["output_layers"] = {{"c1", 0, 0}, {"c2", 0, 0}};
  expect_error(ErrorCode::Unsupported, "'output_layers' is not one tensor", [&] { read(model); });
}

TEST(Tfjs, NothingMissingNothingLeftOver) {
  const auto refused = [](const std::string& part, const std::function<void(TfjsModel&)>& change) {
    TfjsModel model = make_tfjs();
    change(model);
    expect_error(ErrorCode::InvalidModel, part, [&] { read(model); });
  };
  refused("weight 'c1/kernel' is missing", [](TfjsModel& m) { weights_of(m.json)[0]["name"] = "other"; });
  refused("weight 'c2/bias' is missing", [](TfjsModel& m) { weights_of(m.json)[3]["name"] = "other"; });
  refused("'c2/bias' is left over", [](TfjsModel& m) { config_of(m.json, 2)["use_bias"] = false; });
  refused("'c1/kernel' is f32[3,3,3,2,1], but layer 'c1' wants f32[3,3,3,1,2]", [](TfjsModel& m) {
    weights_of(m.json)[0]["shape"] = {3, 3, 3, 2, 1};
  });
  refused("wants f32[3,3,3,1,5]", [](TfjsModel& m) { config_of(m.json, 1)["filters"] = 5; });
  refused("wants f32[5,3,3,1,2]", [](TfjsModel& m) { config_of(m.json, 1)["kernel_size"] = {5, 3, 3}; });
  refused("'c1/bias' is f32[1,2], wanted f32[2]", [](TfjsModel& m) { weights_of(m.json)[1]["shape"] = {1, 2}; });
  refused("'c1/bias' is i32[2], wanted f32[2]", [](TfjsModel& m) { weights_of(m.json)[1]["dtype"] = "int32"; });
  refused("is there twice", [](TfjsModel& m) { weights_of(m.json)[3]["name"] = "c1/bias"; });
  refused("truncated or corrupted", [](TfjsModel& m) { m.weights.pop_back(); });
  refused("hold more than", [](TfjsModel& m) { m.weights.push_back({}); });
  refused("beyond 2^48", [](TfjsModel& m) { weights_of(m.json)[0]["shape"] = {1 << 30, 1 << 30, 1 << 30}; });
  refused("truncated or corrupted", [](TfjsModel& m) { weights_of(m.json)[0]["shape"] = {1 << 30, 1 << 10}; });
  refused("stride is 0", [](TfjsModel& m) { config_of(m.json, 1)["strides"] = 0; });
  refused("stride is 99999999", [](TfjsModel& m) { config_of(m.json, 1)["strides"] = 99999999; });
  refused("dilation is -2", [](TfjsModel& m) { config_of(m.json, 1)["dilation_rate"] = -2; });
  refused("'groups' is not a divisor", [](TfjsModel& m) { config_of(m.json, 1)["groups"] = 0; });
  refused("number of channels", [](TfjsModel& m) { config_of(m.json, 0)["batch_input_shape"][4] = nullptr; });
  refused("an image of 0 channels", [](TfjsModel& m) { config_of(m.json, 0)["batch_input_shape"][4] = 0; });
  refused("without InputLayer", [](TfjsModel& m) { layers_of(m.json)[0]["class_name"] = "Lambda"; });
  refused("output layer 'c9' is missing", [](TfjsModel& m) {
    m.json["modelTopology"]["model_config"]["config"]["output_layers"] = {{"c9", 0, 0}};
  });
  refused("'name' is not a printable name", [](TfjsModel& m) { layers_of(m.json)[1]["name"] = "c\n1"; });
  refused("a tensor is named 'c?'", [](TfjsModel& m) { weights_of(m.json)[0]["name"] = "c\n"; });
  refused("'weightsManifest' is missing", [](TfjsModel& m) { m.json.erase("weightsManifest"); });
  refused("a model of 0 layers", [](TfjsModel& m) { layers_of(m.json) = json::array(); });
  refused("holds NaN", [](TfjsModel& m) {
    const ByteVector nan = float_bytes({std::numeric_limits<float>::quiet_NaN()});
    std::copy(nan.begin(), nan.end(), m.weights.begin() + 8);
  });
}

TEST(Tfjs, RefusesBadVariances) {
  const auto weights = [](float variance) {
    return std::vector<NamedFloats>{{"x/moving_mean", {2}, {0, 0}}, {"x/moving_variance", {2}, {1, variance}}};
  };
  const json config = {{"scale", false}, {"center", false}};
  EXPECT_NO_THROW(read(one_layer("BatchNormalization", config, weights(0))));
  expect_error(ErrorCode::InvalidModel, "variance that is not positive",
               [&] { read(one_layer("BatchNormalization", config, weights(-1))); });
}

TEST(Tfjs, RefusesTruncationAndSurvivesDamage) {
  const TfjsModel model = make_tfjs();
  const FileMap files = {{"model.bin", model.weights}};
  const auto parse = [&](const ByteVector& text) {
    read_tfjs(parse_json(bytes_of(text), "j"), files, "model.bin", "j");
  };
  const ByteVector text = json_bytes(model.json);
  ASSERT_NO_THROW(parse(text));
  expect_every_truncation_refused(text, parse);
  read_every_damage(text, parse);
  expect_every_truncation_refused(model.weights, [&](const ByteVector& data) {
    read(model.json, {{"model.bin", data}});
  });
}

}  // namespace
}  // namespace gyrus::test
