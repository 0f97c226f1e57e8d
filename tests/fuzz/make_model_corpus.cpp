#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/model_writer.h"

// Writes the seeds of the importers' fuzzers into FOLDER/TARGET/. They are committed; run this again only when formats
// are added.

using namespace gyrus::test;

namespace {

void write(const std::filesystem::path& path, const ByteVector& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

ByteVector joined(const ByteVector& first, const ByteVector& second) {
  return ByteWriter().bytes(first).u8(0).bytes(second).out();
}

// One layer over two channels.
ByteVector one_layer(const std::string& class_name, const nlohmann::json& config,
                     const std::vector<NamedFloats>& weights = {}) {
  const TfjsModel model = make_tfjs(2, {keras_layer(class_name, "x", config, {"image"})}, weights);
  return joined(json_bytes(model.json), model.weights);
}

void write_torch(const std::filesystem::path& root) {
  const std::vector<NamedFloats> small = {ramp("a.weight", {2, 3}), ramp("a.bias", {2})};
  write(root / "torch_zip" / "stored", make_torch_zip(small));
  // "abcabcabcabcabc the quick brown fox", deflated.
  const ByteVector deflated = to_bytes(std::string_view(
      "\x4b\x4c\x4a\x4e\x44\x42\x0a\x25\x19\xa9\x0a\x85\xa5\x99\xc9\xd9\x0a\x49\x45\xf9\xe5\x79\x0a\x69\xf9\x15\x00",
      27));
  write(root / "torch_zip" / "deflated", make_zip({{"m/data.pkl", deflated, 8, 35, 0xe5f54b48}}));
  write(root / "torch_zip" / "zip64", make_zip({{"m/data.pkl", to_bytes("}.")}, {"m/version", to_bytes("3")}}, true));

  PickleWriter views;
  views.raw("}(").text("t").tensor("FloatStorage", "0", 6, 0, {3, 2}, {1, 3});
  views.text("n").tensor("LongStorage", "1", 1, 0, {}, {}).raw("u");
  write(root / "torch_pickle" / "views", views.finish());
  PickleWriter checkpoint(4);
  checkpoint.raw("}(").text("epoch").integer(3).text("state_dict").raw("}(");
  checkpoint.text("module.a").global("torch._utils", "_rebuild_parameter").raw("(");
  checkpoint.tensor("HalfStorage", "1", 4, 1, {3}, {1}).byte(0x88).raw("}tRuu");
  write(root / "torch_pickle" / "checkpoint", checkpoint.finish());
  PickleWriter memo;
  memo.text("collections").text("OrderedDict").raw("\x93\x94)Rq\x05(").text("k").raw("](K\x01M\x02\x02G");
  memo.raw(std::string(8, '\1')).raw("euh\x05\x30");
  write(root / "torch_pickle" / "memo", memo.finish());
}

void write_tfjs(const std::filesystem::path& root) {
  const TfjsModel model = make_tfjs();
  write(root / "tfjs" / "functional", joined(json_bytes(model.json), model.weights));
  write(root / "tfjs" / "padding", one_layer("ZeroPadding3D", {{"padding", {{1, 2}, {0, 3}, {4, 0}}}}));
  write(root / "tfjs" / "softmax", one_layer("Softmax", {{"axis", -1}}));
  write(root / "tfjs" / "relu", one_layer("ReLU", {{"max_value", nullptr}, {"negative_slope", 0.5}}));
  write(
      root / "tfjs" / "norm",
      one_layer(
          "BatchNormalization", {{"axis", {4}}, {"epsilon", 0.001}},
          {ramp("x/gamma", {2}), ramp("x/beta", {2}), ramp("x/moving_mean", {2}), {"x/moving_variance", {2}, {1, 4}}}));
  const nlohmann::json strided = {
      {"filters", 2}, {"kernel_size", 2}, {"strides", 2}, {"padding", "same"}, {"groups", 2}};
  write(root / "tfjs" / "strided",
        one_layer("Conv3D", strided, {ramp("x/kernel", {2, 2, 2, 1, 2}), ramp("x/bias", {2})}));
  const TfjsModel joins = make_tfjs(2,
                                    {keras_layer("Activation", "a", {{"activation", "tanh"}}, {"image"}),
                                     keras_layer("Add", "s", nlohmann::json::object(), {"a", "image"}),
                                     keras_layer("Concatenate", "c", {{"axis", 4}}, {"s", "a"})},
                                    {});
  write(root / "tfjs" / "joins", joined(json_bytes(joins.json), joins.weights));
  TfjsModel quantised = make_tfjs();
  for (nlohmann::json& weight : quantised.json["weightsManifest"][0]["weights"]) {
    weight["quantization"] = {{"dtype", "uint8"}, {"scale", 0.5}, {"min", -1}};
  }
  quantised.weights.resize(quantised.weights.size() / 4);
  write(root / "tfjs" / "quantised", joined(json_bytes(quantised.json), quantised.weights));
}

void write_layer_lists(const std::filesystem::path& root) {
  nlohmann::json list = make_layer_list(3);
  write(root / "layer_list" / "flat", joined(json_bytes(list), make_safetensors(make_meshnet_weights(3))));
  list = make_layer_list(1);
  write(root / "layer_list" / "torch", joined(json_bytes(list), make_torch_zip(make_meshnet_weights(1))));
  list = make_layer_list(2);
  list["bnorm"] = list["gelu"] = true;
  list["layers"][0]["in_channels"] = -1;
  std::vector<NamedFloats> weights = {ramp("model.0.0.weight", {2, 1, 3, 3, 3}), ramp("model.0.0.bias", {2}),
                                      ramp("model.0.1.running_mean", {2}),       {"model.0.1.running_var", {2}, {1, 2}},
                                      ramp("model.1.weight", {3, 2, 1, 1, 1}),   ramp("model.1.bias", {3})};
  write(root / "layer_list" / "nested", joined(json_bytes(list), make_safetensors(weights)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_model_corpus FOLDER\n";
    return 2;
  }
  const std::filesystem::path root = argv[1];
  write_torch(root);
  write_tfjs(root);
  write_layer_lists(root);
  write(root / "safetensors" / "two", make_safetensors({ramp("a.weight", {2, 3}), ramp("a.bias", {2})}));
  write(root / "safetensors" / "types",
        make_safetensors(
            "{\"__metadata__\":{\"format\":\"pt\"},\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
            "\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[4,12]}}",
            ByteVector(12)));
  return 0;
}
