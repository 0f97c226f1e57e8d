#include "import/layer_list.h"

#include <cmath>
#include <limits>

#include "import/safetensors.h"
#include "reference/reference.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

using nlohmann::json;

Network read_list(const json& list, const std::vector<NamedFloats>& weights) {
  const ByteVector text = json_bytes(list);
  const ByteVector file = make_safetensors(weights);
  return read_layer_list(parse_json(bytes_of(text), "model.json"), "model.json",
                         read_safetensors(bytes_of(file), "model.pth"), "model.pth");
}

// The ops behind the image, in order.
// Names "model.4.weight" → "model.2.0.weight", the last without its ".0": a Sequential of blocks.
std::vector<NamedFloats> nested(std::vector<NamedFloats> weights, size_t layers) {
  for (NamedFloats& weight : weights) {
    const size_t dot = weight.name.find('.', 6);
    const size_t layer = std::stoul(weight.name.substr(6, dot - 6)) / 2;
    weight.name = "model." + std::to_string(layer) + (layer + 1 < layers ? ".0" : "") + weight.name.substr(dot);
  }
  return weights;
}

std::vector<NamedFloats> without(std::vector<NamedFloats> weights, const std::string& name) {
  std::vector<NamedFloats> out;
  for (NamedFloats& weight : weights) {
    if (weight.name != name) out.push_back(weight);
  }
  return out;
}

TEST(LayerList, ReadsBothNamings) {
  for (const bool is_nested : {false, true}) {
    const std::vector<NamedFloats> flat = make_meshnet_weights(3);
    const Network network = read_list(make_layer_list(3), is_nested ? nested(flat, 3) : flat);
    EXPECT_EQ(ops(network), (std::vector<std::string>{"conv", "relu", "conv", "relu", "conv"}));
    EXPECT_EQ(network.channels(network.output()), 3);
    const Graph graph = network.build({4, 5, 6});
    EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{1, 3, 4, 5, 6}));
  }
}

TEST(LayerList, ComputesWhatTheListSays) {
  json list = make_layer_list(1);
  list["layers"][0]["kernel_size"] = 3;
  list["layers"][0]["padding"] = 2;
  list["layers"][0]["dilation"] = 2;
  const NamedFloats weight = ramp("model.0.weight", {3, 1, 3, 3, 3}), bias = ramp("model.0.bias", {3});
  Tensor image(DType::F32, {1, 1, 3, 3, 3});
  image.as<float>()[13] = 1;  // the middle: each output corner sees one tap, and no other
  const auto out = reference::run(read_list(list, {weight, bias}).build({3, 3, 3}), {{"image", image}}).at("logits");
  for (size_t o = 0; o < 3; ++o) {
    EXPECT_EQ(out.data[o * 27 + 13], double{weight.values[o * 27 + 13]} + double{bias.values[o]});
    EXPECT_EQ(out.data[o * 27], double{bias.values[o]});  // the middle is at distance 1, no multiple of 2
  }
}

TEST(LayerList, FindsTheActivation) {
  const auto second = [](const char* key, const json& value) {
    json list = make_layer_list(2);
    list[key] = value;
    return ops(read_list(list, make_meshnet_weights(2))).at(1);
  };
  EXPECT_EQ(second("gelu", false), "relu");
  EXPECT_EQ(second("gelu", true), "gelu");
  EXPECT_EQ(second("elu", true), "elu");
  EXPECT_EQ(second("activation", "silu"), "silu");
  expect_error(ErrorCode::Unsupported, "unknown activation 'selu'", [&] { second("activation", "selu"); });
  expect_error(ErrorCode::Unsupported, "unknown key 'mish'", [&] { second("mish", true); });
  json list = make_layer_list(2);
  list["gelu"] = list["elu"] = true;
  expect_error(ErrorCode::InvalidModel, "two activations", [&] { read_list(list, make_meshnet_weights(2)); });
}

TEST(LayerList, GeluIsTheExactOne) {
  json list = make_layer_list(2);
  list["gelu"] = true;
  const Network network = read_list(list, make_meshnet_weights(2));
  EXPECT_EQ(network.steps()[2].attrs.text("approximate", "none"), "none");
}

TEST(LayerList, BnormWithoutTensorsIsInstanceNorm) {
  json list = make_layer_list(3);
  list["bnorm"] = true;
  const Network network = read_list(list, make_meshnet_weights(3));
  EXPECT_EQ(ops(network),
            (std::vector<std::string>{"conv", "group_norm", "relu", "conv", "group_norm", "relu", "conv"}));
  EXPECT_EQ(network.steps()[2].attrs.integer("groups"), 2);
  EXPECT_EQ(network.steps()[2].attrs.number("eps"), 1e-5);
  EXPECT_TRUE(network.steps()[2].weights.empty());
}

// The weights of a list with bnorm: conv at 0 and 3, norm at 1.
std::vector<NamedFloats> with_norm(const std::vector<std::string>& roles) {
  std::vector<NamedFloats> out = make_meshnet_weights(2);
  for (NamedFloats& weight : out) {
    if (weight.name.rfind("model.2.", 0) == 0) weight.name[6] = '3';
  }
  for (const std::string& role : roles) {
    out.push_back({"model.1." + role, {2}, {0.5f, 2}});
  }
  return out;
}

TEST(LayerList, UsesTheNormsTensors) {
  json list = make_layer_list(2);
  list["bnorm"] = true;
  const Network affine = read_list(list, with_norm({"weight", "bias"}));
  EXPECT_EQ(ops(affine)[1], "group_norm");
  EXPECT_EQ(affine.steps()[2].weights.size(), 2u);
  const Network batch = read_list(list, with_norm({"running_mean", "running_var"}));
  EXPECT_EQ(ops(batch)[1], "batch_norm");
  EXPECT_EQ(batch.steps()[2].weights.size(), 2u);
  std::vector<NamedFloats> full = with_norm({"running_mean", "running_var", "weight", "bias"});
  full.push_back({"model.1.num_batches_tracked", {}, {7}});
  const Network both = read_list(list, full);
  EXPECT_EQ(both.steps()[2].weights.size(), 4u);
  EXPECT_EQ(both.steps()[2].weights[2].name, "model.1.weight");

  expect_error(ErrorCode::InvalidModel, "'model.1.bias' is missing", [&] { read_list(list, with_norm({"weight"})); });
  expect_error(ErrorCode::InvalidModel, "'model.1.running_var' is missing",
               [&] { read_list(list, with_norm({"running_mean"})); });
  list["bnorm"] = false;
  expect_error(ErrorCode::InvalidModel, "is left over", [&] { read_list(list, with_norm({"weight", "bias"})); });
}

TEST(LayerList, ATemplateTakesItsChannelsFromTheWeights) {
  json list = make_layer_list(3);
  for (json& layer : list["layers"]) layer["out_channels"] = layer["in_channels"] = 5;
  expect_error(ErrorCode::InvalidModel, "goes from 5 to 5 channels", [&] { read_list(list, make_meshnet_weights(3)); });
  list["layers"][0]["in_channels"] = -1;
  list["layers"][2]["out_channels"] = -1;
  const Network network = read_list(list, make_meshnet_weights(3));
  EXPECT_EQ(network.channels(network.image()), 1);
  EXPECT_EQ(network.channels(network.output()), 3);
}

TEST(LayerList, TheLastConvolutionHasABiasUnlessItSaysOtherwise) {
  json list = make_layer_list(2);
  list.erase("bias");
  const std::vector<NamedFloats> bare = without(make_meshnet_weights(2), "model.0.bias");
  EXPECT_EQ(read_list(list, bare).steps()[3].weights.size(), 2u);
  list["bias"] = false;  // speaks of the hidden layers
  EXPECT_EQ(read_list(list, bare).steps()[3].weights.size(), 2u);
  expect_error(ErrorCode::InvalidModel, "'model.2.bias' is missing",
               [&] { read_list(list, without(bare, "model.2.bias")); });
  list["layers"][1]["bias"] = false;
  EXPECT_EQ(read_list(list, without(bare, "model.2.bias")).steps()[3].weights.size(), 1u);
  expect_error(ErrorCode::InvalidModel, "'model.2.bias' is left over", [&] { read_list(list, bare); });
}

TEST(LayerList, NothingMissingNothingLeftOver) {
  const json list = make_layer_list(4);
  const std::vector<NamedFloats> good = make_meshnet_weights(4);
  for (const NamedFloats& weight : good) {
    expect_error(ErrorCode::InvalidModel, "weight '" + weight.name + "' is missing",
                 [&] { read_list(list, without(good, weight.name)); });
  }
  for (const char* name : {"model.8.weight", "extra", "other.0.weight", "model.0.gamma"}) {
    std::vector<NamedFloats> more = good;
    more.push_back(ramp(name, {2, 2, 3, 3, 3}));
    expect_error(ErrorCode::InvalidModel, "is left over", [&] { read_list(list, more); });
  }
  expect_error(ErrorCode::InvalidModel, "layers[2] has the kernel", [&] { read_list(make_layer_list(3), good); });
  expect_error(ErrorCode::InvalidModel, "no convolution weights", [&] { read_list(list, {ramp("a", {2})}); });

  json silent = list;
  silent.erase("bias");
  expect_error(ErrorCode::InvalidModel, "'model.2.bias' is missing",
               [&] { read_list(silent, without(good, "model.2.bias")); });
}

TEST(LayerList, RefusesWrongShapes) {
  const json list = make_layer_list(4);
  const auto refused = [&](size_t index, const Shape& shape, const std::string& part) {
    std::vector<NamedFloats> weights = make_meshnet_weights(4);
    weights[index] = ramp(weights[index].name, shape);
    expect_error(ErrorCode::InvalidModel, part, [&] { read_list(list, weights); });
  };
  refused(2, {2, 2, 3, 3, 1}, "has the kernel [3,3,3]");
  refused(2, {2, 3, 3, 3, 3}, "goes from 2 to 2 channels");
  refused(2, {4, 2, 3, 3, 3}, "goes from 2 to 2 channels");
  refused(2, {2, 2, 27}, "wanted 5 axes");
  refused(2, {108}, "wanted 5 axes");
  refused(3, {3}, "'model.2.bias' is f32[3], wanted f32[2]");
  refused(3, {2, 1}, "wanted f32[2]");

  json loose = list;
  loose["layers"][0]["in_channels"] = -1;
  std::vector<NamedFloats> weights = make_meshnet_weights(4);
  weights[2] = ramp(weights[2].name, {2, 3, 3, 3, 3});
  expect_error(ErrorCode::InvalidModel, "does not fit 2 input channels", [&] { read_list(loose, weights); });
}

TEST(LayerList, RefusesWrongNumbers) {
  const auto refused = [](const char* key, const json& value, const std::string& part) {
    json list = make_layer_list(2);
    list["layers"][0][key] = value;
    expect_error(ErrorCode::InvalidModel, part, [&] { read_list(list, make_meshnet_weights(2)); });
  };
  refused("stride", 0, "stride is 0");
  refused("dilation", -1, "dilation is -1");
  refused("padding", 1 << 20, "padding is 1048576");
  refused("padding", "same", "'padding' is not an integer");
  refused("kernel_size", json::array({3, 3}), "'kernel_size' is not an integer or 3 of them");
  refused("groups", 0, "'groups' is not a divisor");
  refused("groups", int64_t{1} << 60, "'groups' is not a divisor");
  refused("stride", 1.5, "'stride' is not an integer");
  json list = make_layer_list(2);
  list["layers"][1].erase("kernel_size");
  expect_error(ErrorCode::InvalidModel, "'kernel_size' is missing", [&] { read_list(list, make_meshnet_weights(2)); });
  list = make_layer_list(2);
  list["layers"][1]["type"] = "transposed";
  expect_error(ErrorCode::Unsupported, "layers[1]: unknown key 'type'",
               [&] { read_list(list, make_meshnet_weights(2)); });
}

TEST(LayerList, RefusesNaN) {
  std::vector<NamedFloats> weights = make_meshnet_weights(2);
  weights[2].values[1] = std::numeric_limits<float>::quiet_NaN();
  expect_error(ErrorCode::InvalidModel, "[model.pth] weight 'model.2.weight' holds NaN",
               [&] { read_list(make_layer_list(2), weights); });
}

}  // namespace
}  // namespace gyrus::test
