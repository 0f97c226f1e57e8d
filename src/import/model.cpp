#include "import/model.h"

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "import/layer_list.h"
#include "import/safetensors.h"
#include "import/tfjs.h"
#include "import/torch_zip.h"

namespace gyrus {
namespace {

enum class FileKind { Json, TorchZip, LegacyTorch, Safetensors, Other };

FileKind kind_of(Bytes file) {
  if (is_torch_zip(file)) return FileKind::TorchZip;
  if (is_legacy_torch(file)) return FileKind::LegacyTorch;
  if (is_safetensors(file)) return FileKind::Safetensors;
  const size_t start = text_of(file).find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (start != std::string_view::npos && file[start] == std::byte{'{'}) return FileKind::Json;
  return FileKind::Other;
}

bool is_weights(FileKind kind) {
  return kind == FileKind::TorchZip || kind == FileKind::LegacyTorch || kind == FileKind::Safetensors;
}

std::string stem(const std::string& name) { return name.substr(0, name.find('.')); }

// The files of one model and what they are.
class Folder {
 public:
  explicit Folder(const ModelFiles& files) : files_(files), root_(files.path.empty() ? files.name : files.path) {
    for (const auto& [name, data] : files.files) kinds_[name] = kind_of(bytes_of(data));
    if (!files.main.empty() && kinds_.count(files.main) == 0)
      fail(ErrorCode::Io, root_, "no file ", in_quotes(files.main));
  }

  const std::string& root() const { return root_; }
  std::string subject(const std::string& name) const { return root_ + "/" + name; }
  Bytes bytes(const std::string& name) const { return bytes_of(files_.files.at(name)); }
  const FileMap& files() const { return files_.files; }
  FileKind kind(const std::string& name) const { return kinds_.at(name); }

  // The JSON that describes the network: the one named by the user, else model.json, else the only one that does.
  std::string topology() const {
    if (!files_.main.empty() && kind(files_.main) == FileKind::Json) return files_.main;
    const std::string usual = "model.json";
    if (kinds_.count(usual) != 0) return usual;
    std::vector<std::string> found;
    for (const auto& [name, data] : files_.files) {
      if (kinds_.at(name) != FileKind::Json) continue;
      const Json json = parse_json(bytes_of(data), subject(name));
      if (is_tfjs(json) || is_layer_list(json)) found.push_back(name);
    }
    if (found.size() == 1) return found[0];
    if (!found.empty())
      fail(ErrorCode::InvalidModel, root_, "several models: ", in_quotes(found[0]), ", ", in_quotes(found[1]),
           "; name one");
    no_topology();
  }

  // The weights for a layer list: those named by the user, else the only ones, else the only ones with its stem.
  std::string weights(const std::string& list) const {
    if (!files_.main.empty() && files_.main != list) {
      if (is_weights(kind(files_.main))) return files_.main;
      fail(ErrorCode::InvalidModel, subject(files_.main), "neither a torch zip nor safetensors");
    }
    std::vector<std::string> all, same_stem;
    for (const auto& [name, file_kind] : kinds_) {
      if (!is_weights(file_kind)) continue;
      all.push_back(name);
      if (stem(name) == stem(list)) same_stem.push_back(name);
    }
    if (all.size() == 1) return all[0];
    if (same_stem.size() == 1) return same_stem[0];
    if (all.empty()) fail(ErrorCode::InvalidModel, subject(list), "no weights (torch zip or safetensors) beside it");
    fail(ErrorCode::InvalidModel, subject(list), "several weights beside it: ", in_quotes(all[0]), ", ",
         in_quotes(all[1]), "; name one");
  }

 private:
  [[noreturn]] void no_topology() const {
    for (const auto& [name, file_kind] : kinds_) {
      if (!is_weights(file_kind)) continue;
      fail(ErrorCode::InvalidModel, subject(name),
           "weights alone do not say how a network is built; put its model.json (a layer list) beside them");
    }
    fail(ErrorCode::InvalidModel, files_.main.empty() ? root_ : subject(files_.main),
         "no model in it: wanted model.json with its weights, or an ONNX file");
  }

  const ModelFiles& files_;
  std::string root_;
  std::map<std::string, FileKind> kinds_;
};

StateDict read_weights(const Folder& folder, const std::string& name) {
  if (folder.kind(name) == FileKind::Safetensors) return read_safetensors(folder.bytes(name), folder.subject(name));
  return read_torch_zip(folder.bytes(name), folder.subject(name));
}

int64_t count_parameters(const NetworkStep& step) {
  const bool statistics = step.op == "batch_norm";  // mean and variance come first
  int64_t count = 0;
  for (size_t i = statistics ? 2 : 0; i < step.weights.size(); ++i) count += step.weights[i].tensor->size();
  return count;
}

LayerInfo describe_conv(const NetworkStep& step) {
  LayerInfo info;
  info.name = step.label;
  info.weight_shape = step.weights[0].tensor->shape;
  info.kernel.assign(info.weight_shape.begin() + 2, info.weight_shape.end());
  info.kind = cat("conv", info.kernel.size(), "d");
  info.dilation = step.attrs.integers("dilation");
  info.stride = step.attrs.integers("stride");
  if (!step.same_padding) info.pads = step.attrs.integers("pads");
  info.parameters = count_parameters(step);
  return info;
}

// A norm or an activation belongs to the layer that it alone reads, if that has none yet.
bool joins_layer(const NetworkStep& step, const LayerInfo& layer, bool follows) {
  if (!follows || layer.kind.rfind("conv", 0) != 0 || step.inputs.size() != 1 || !layer.activation.empty())
    return false;
  const bool norm = step.op == "batch_norm" || step.op == "group_norm";
  return step.op != "pad" && (!norm || layer.norm.empty());
}

std::vector<LayerInfo> describe_layers(const Network& network) {
  std::vector<LayerInfo> layers;
  for (size_t i = 1; i < network.steps().size(); ++i) {
    const NetworkStep& step = network.steps()[i];
    if (step.op == "conv") {
      layers.push_back(describe_conv(step));
      continue;
    }
    if (!layers.empty() && joins_layer(step, layers.back(), step.inputs[0] + 1 == i)) {
      const bool norm = step.op == "batch_norm" || step.op == "group_norm";
      (norm ? layers.back().norm : layers.back().activation) = step.op;
      layers.back().parameters += count_parameters(step);
      continue;
    }
    LayerInfo info;
    info.name = step.label;
    info.kind = step.op;
    info.parameters = count_parameters(step);
    layers.push_back(std::move(info));
  }
  return layers;
}

// Along each axis: the reach grows by (kernel - 1) · dilation · the product of the strides so far.
int64_t receptive_field(const Network& network) {
  constexpr double kMost = 1e15;  // strides multiply up; doubles keep that from overflowing
  double widest = 1;
  for (size_t axis = 0; axis < network.spatial_rank(); ++axis) {
    std::vector<double> reach(network.steps().size(), 1), jump(network.steps().size(), 1);
    for (size_t i = 1; i < network.steps().size(); ++i) {
      const NetworkStep& step = network.steps()[i];
      for (const size_t input : step.inputs) {
        reach[i] = std::max(reach[i], reach[input]);
        jump[i] = std::max(jump[i], jump[input]);
      }
      if (step.op != "conv") continue;
      const auto dilation = static_cast<double>(step.attrs.integers("dilation")[axis]);
      const auto kernel = static_cast<double>(step.weights[0].tensor->shape[axis + 2]);
      reach[i] = std::min(kMost, reach[i] + (kernel - 1) * dilation * jump[i]);
      jump[i] = std::min(kMost, jump[i] * static_cast<double>(step.attrs.integers("stride")[axis]));
    }
    widest = std::max(widest, reach[network.output()]);
  }
  return static_cast<int64_t>(widest);
}

Model make_model(const Folder& folder, const ModelFiles& files, std::string format, Network network) {
  Model model;
  model.name = files.name;
  model.path = folder.root();
  model.format = std::move(format);
  model.layers = describe_layers(network);
  model.input_channels = network.channels(network.image());
  model.classes = network.channels(network.output());
  for (const LayerInfo& layer : model.layers) model.parameters += layer.parameters;
  model.spatial_rank = static_cast<int>(network.spatial_rank());
  model.receptive_field = receptive_field(network);
  model.network = std::make_shared<const Network>(std::move(network));
  return model;
}

}  // namespace

Graph Model::build(const Shape& spatial) const { return network->build(spatial); }

Model load_model(const ModelFiles& files) {
  const Folder folder(files);
  const std::string name = folder.topology();
  const std::string subject = folder.subject(name);
  const Json json = parse_json(folder.bytes(name), subject);
  if (is_tfjs(json)) {
    return make_model(folder, files, "tfjs layers model", read_tfjs(json, files.files, "model.bin", subject));
  }
  if (!is_layer_list(json)) {
    fail(ErrorCode::InvalidModel, subject,
         "neither a tfjs layers model (modelTopology) nor a MeshNet layer list (layers)");
  }
  const std::string weights = folder.weights(name);
  const char* format =
      folder.kind(weights) == FileKind::Safetensors ? "layer list + safetensors" : "layer list + torch zip";
  const StateDict state = read_weights(folder, weights);
  return make_model(folder, files, format, read_layer_list(json, subject, state, folder.subject(weights)));
}

}  // namespace gyrus
