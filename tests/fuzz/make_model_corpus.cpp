#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/model_writer.h"
#include "support/onnx_writer.h"

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

void write_onnx(const std::filesystem::path& root) {
  using namespace gyrus::test::onnx_file;
  const auto seed = [&](const char* name, const std::string& graph, const std::string& more = opset(21)) {
    const std::string file = model(graph, more);
    const auto* bytes = reinterpret_cast<const std::byte*>(file.data());
    write(root / "onnx" / name, ByteVector(bytes, bytes + file.size()));
  };
  const std::string image = input("x", Float, {1, 2, -1, 4}), end = output("y");
  const auto weight = [](const char* name, const std::vector<int64_t>& dims, size_t count) {
    return initializer(tensor<float>(name, Float, dims, std::vector<float>(count, 0.5f)));
  };
  const auto list = [](const char* name, const std::vector<int64_t>& values) {
    return initializer(tensor<int64_t>(name, Int64, {static_cast<int64_t>(values.size())}, values));
  };
  const std::vector<int64_t> two = {2, 2};
  seed("conv", image + weight("w", {3, 2, 3, 3}, 54) + node("Conv", {"x", "w"}, {"c"}, attribute("strides", two)) +
                   node("Relu", {"c"}, {"y"}) + end);
  seed("deconv", image + weight("w", {2, 3, 2, 2}, 24) +
                     node("ConvTranspose", {"x", "w"}, {"y"}, attribute("strides", two)) + end);
  seed("pool",
       image + node("MaxPool", {"x"}, {"y", "i"}, attribute("kernel_shape", two) + attribute("ceil_mode", 1)) + end);
  seed("average", image +
                      node("AveragePool", {"x"}, {"y"},
                           attribute("kernel_shape", two) + attribute("auto_pad", std::string("SAME_UPPER"))) +
                      end);
  seed("resize", image + initializer(tensor<float>("s", Float, {4}, {1, 1, 2, 2})) +
                     node("Resize", {"x", "", "s"}, {"y"}, attribute("mode", std::string("cubic"))) + end);
  seed("shapes", image + node("Shape", {"x"}, {"s"}) + list("i", {0}) + list("r", {-1}) +
                     node("Gather", {"s", "i"}, {"n"}) + node("Concat", {"n", "r"}, {"t"}, attribute("axis", 0)) +
                     node("Reshape", {"x", "t"}, {"y"}) + end);
  seed("slice", image + list("b", {-1}) + list("e", {-9}) + list("a", {3}) + list("st", {-2}) +
                    node("Slice", {"x", "b", "e", "a", "st"}, {"y"}) + end);
  seed("pad", image + list("p", {0, 0, 1, 1, 0, 0, 1, 1}) +
                  node("Pad", {"x", "p"}, {"y"}, attribute("mode", std::string("reflect"))) + end);
  seed("matmul", input("x", Float, {-1, 4}) + weight("w", {4, 3}, 12) + node("Gemm", {"x", "w"}, {"g"}) +
                     node("Softmax", {"g"}, {"y"}, attribute("axis", -1)) + end);
  seed("einsum",
       image + node("Einsum", {"x", "x"}, {"y"}, attribute("equation", std::string("...ij,...kj->...ik"))) + end);
  seed("lstm", input("x", Float, {3, 1, 2}) + weight("w", {1, 8, 2}, 16) + weight("r", {1, 8, 2}, 16) +
                   node("LSTM", {"x", "w", "r"}, {"y", "h", "c"}, attribute("hidden_size", 2)) + end);
  seed("attention",
       input("q", Float, {1, 2, 3, 4}) + node("Attention", {"q", "q", "q"}, {"y"}, attribute("is_causal", 1)) + end,
       opset(23));
  seed("quantized", image + initializer(tensor<float>("s", Float, {}, {0.1f})) +
                        initializer(tensor<uint8_t>("z", Uint8, {}, {128})) +
                        node("QuantizeLinear", {"x", "s", "z"}, {"q"}) +
                        node("DequantizeLinear", {"q", "s", "z"}, {"y"}) + end);
  const std::string body = text(11, text(1, "i")) + text(11, text(1, "go")) + text(11, text(1, "a")) +
                           node("Add", {"a", "x"}, {"b"}) + output("go") + output("b") + output("b");
  seed("loop", input("x", Float, {2}) + initializer(tensor<int64_t>("n", Int64, {}, {3})) +
                   node("Loop", {"n", "", "x"}, {"y", "s"}, graph_attribute("body", body)) + end);
  const std::string function = text(1, "f") + text(10, "own") + text(4, "a") + text(5, "r") +
                               text(7, node("LeakyRelu", {"a"}, {"r"}, from_function("alpha", "alpha")).substr(2)) +
                               text(9, number(2, 21));
  seed("function", image + node("f", {"x"}, {"y"}, attribute("alpha", 0.5f), "own") + end,
       opset(21) + opset(1, "own") + text(25, function));
  seed("old",
       image + node("Split", {"x"}, {"a", "b"}, attribute("axis", 1)) +
           node("Mul", {"a", "b"}, {"y"}, attribute("broadcast", 1)) + end,
       opset(6));
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
  write_onnx(root);
  write(root / "safetensors" / "two", make_safetensors({ramp("a.weight", {2, 3}), ramp("a.bias", {2})}));
  write(root / "safetensors" / "types",
        make_safetensors(
            "{\"__metadata__\":{\"format\":\"pt\"},\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
            "\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[4,12]}}",
            ByteVector(12)));
  return 0;
}
