#include "demo.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "demo_model.h"
#include "volume/io.h"
#include "volume/phantom.h"

namespace gyrus::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTitle = "Tissues of the synthetic head";

// A layer list (docs/models.md); its tensors are named NUMBER.weight and NUMBER.bias.
std::string layer_list(const std::vector<DemoLayer>& layers) {
  Json list = Json::array();
  for (const DemoLayer& layer : layers)
    list.push_back({{"in_channels", layer.in},
                    {"out_channels", layer.out},
                    {"kernel_size", layer.kernel},
                    {"padding", layer.kernel / 2 * layer.dilation},
                    {"stride", 1},
                    {"dilation", layer.dilation}});
  return Json{{"header", "tissues of the synthetic head"}, {"bnorm", false}, {"bias", true}, {"layers", list}}.dump(1);
}

std::string safetensors(const std::vector<DemoLayer>& layers) {
  Json header;
  std::string data;
  const auto add = [&](const std::string& name, const Shape& shape, const std::vector<float>& values) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    const DemoLayer& layer = layers[i];
    add(cat("model.", i, ".weight"), {layer.out, layer.in, layer.kernel, layer.kernel, layer.kernel}, layer.weight);
    add(cat("model.", i, ".bias"), {layer.out}, layer.bias);
  }
  const std::string text = header.dump();
  std::string out;
  const uint64_t size = text.size();
  for (int byte = 0; byte < 8; ++byte) out += static_cast<char>(size >> (8 * byte) & 0xff);
  return out + text + data;
}

std::string colormap(const LabelTable& table) {
  Json map;
  for (const LabelEntry& entry : table.entries) {
    map["R"].push_back(entry.colour[0]);
    map["G"].push_back(entry.colour[1]);
    map["B"].push_back(entry.colour[2]);
    map["labels"].push_back(entry.name);
  }
  return map.dump();
}

}  // namespace

std::vector<std::string> write_demo_model(const std::string& folder, int64_t size) {
  const std::vector<DemoLayer> layers = demo_layers(size);
  const Json manifest = {{"title", kTitle}, {"normalize", normalize_text(demo_normalize())}};
  std::vector<std::string> written;
  for (const auto& [name, text] : {std::pair<const char*, std::string>{"model.json", layer_list(layers)},
                                   {"model.safetensors", safetensors(layers)},
                                   {"colormap.json", colormap(phantom_labels())},
                                   {"gyrus.json", manifest.dump(2) + "\n"}}) {
    written.push_back((std::filesystem::path(folder) / name).string());
    write_file(written.back(), text);
  }
  return written;
}

Manifest demo_manifest() {
  Manifest manifest;
  manifest.name = "demo";
  manifest.title = kTitle;
  manifest.normalize = demo_normalize();
  manifest.labels = phantom_labels();
  return manifest;
}

Model demo_model(int64_t size) {
  Model model;
  model.name = "demo";
  model.format = "built in";
  model.input_channels = 1;
  model.classes = kTissues;
  model.spatial_rank = 3;
  model.network = std::make_shared<const Network>(demo_network(size));
  return model;
}

}  // namespace gyrus::cli
