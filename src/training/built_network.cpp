// The built-in networks, MeshNet and U-Net, as a list of steps from which graphs, layer lists and ONNX files are made.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/tensor.h"
#include "gyrus/nn.h"
#include "gyrus/random.h"
#include "import/safetensors.h"
#include "training/built_network.h"
#include "training/onnx_write.h"
#include "volume/random.h"

namespace gyrus {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNormEps = 1e-5;

Value activated(Value x, const std::string& name) {
  if (name == "gelu") return gelu(x);
  if (name == "elu") return elu(x);
  if (name == "silu") return silu(x);
  if (name == "leaky_relu") return leaky_relu(x);
  return relu(x);
}

}  // namespace

BuiltNetwork::BuiltNetwork(const NetworkConfig& config, int64_t classes, uint64_t seed)
    : config_(config), classes_(classes), seed_(seed) {
  if (config.kind == NetworkConfig::Kind::MeshNet)
    make_meshnet();
  else
    make_unet();
}

int64_t BuiltNetwork::multiple() const {
  return config_.kind == NetworkConfig::Kind::UNet ? int64_t{1} << (config_.channels.size() - 1) : 1;
}

Tensor BuiltNetwork::random_weight(const Shape& shape, int64_t fan_in) {
  Tensor t(DType::F32, shape);
  const double spread = std::sqrt(2.0 / static_cast<double>(fan_in));
  for (int64_t i = 0; i < t.size(); ++i) set(t, i, spread * normal_at(seed_, drawn_++));
  return t;
}

size_t BuiltNetwork::add_conv(size_t x, const std::string& name, int64_t out, int64_t kernel, int64_t dilation,
                              bool bias) {
  const int64_t in = channels_of(x);
  start_[name + ".weight"] = random_weight({out, in, kernel, kernel, kernel}, in * kernel * kernel * kernel);
  if (bias) start_[name + ".bias"] = Tensor(DType::F32, {out});
  return add({NetStep::Kind::Conv, name, {x}, out, kernel, dilation, bias});
}

size_t BuiltNetwork::add_block(size_t x, const std::string& conv, const std::string& norm, int64_t out,
                               int64_t dilation) {
  const bool normed = config_.norm != "none";
  x = add_conv(x, conv, out, 3, dilation, !normed);
  if (normed) {
    const auto filled = [&](double value) {
      Tensor t(DType::F32, {out});
      for (int64_t i = 0; i < out; ++i) set(t, i, value);
      return t;
    };
    if (config_.affine) {
      start_[norm + ".weight"] = filled(1);
      start_[norm + ".bias"] = filled(0);
    }
    if (config_.norm == "batch") {
      start_[norm + ".running_mean"] = filled(0);
      start_[norm + ".running_var"] = filled(1);
    }
    x = add({NetStep::Kind::Norm, norm, {x}, out});
  }
  x = add({NetStep::Kind::Activation, conv + ".activation", {x}, out});
  if (config_.dropout > 0) x = add({NetStep::Kind::Dropout, conv + ".dropout", {x}, out});
  return x;
}

size_t BuiltNetwork::add(NetStep step) {
  steps_.push_back(std::move(step));
  return steps_.size();  // 0 is the image
}

int64_t BuiltNetwork::channels_of(size_t step) const { return step == 0 ? 1 : steps_[step - 1].channels; }

// Names as torch gives them to a Sequential of blocks, which layer lists are read with.
void BuiltNetwork::make_meshnet() {
  size_t x = 0;
  for (size_t i = 0; i < config_.dilations.size(); ++i)
    x = add_block(x, cat("model.", i, ".0"), cat("model.", i, ".1"), config_.channels[0], config_.dilations[i]);
  add_conv(x, cat("model.", config_.dilations.size()), classes_, 1, 1, true);
}

void BuiltNetwork::make_unet() {
  const auto twice = [&](size_t x, const std::string& name, int64_t out) {
    x = add_block(x, name + ".conv1", name + ".norm1", out, 1);
    return add_block(x, name + ".conv2", name + ".norm2", out, 1);
  };
  size_t x = 0;
  std::vector<size_t> skipped;
  const std::vector<int64_t>& channels = config_.channels;
  for (size_t i = 0; i + 1 < channels.size(); ++i) {
    x = twice(x, cat("down", i), channels[i]);
    skipped.push_back(x);
    x = add({NetStep::Kind::MaxPool, cat("pool", i), {x}, channels[i]});
  }
  x = twice(x, "middle", channels.back());
  for (size_t i = channels.size() - 1; i-- > 0;) {
    const std::string up = cat("up", i);
    start_[up + ".weight"] = random_weight({channels[i + 1], channels[i], 2, 2, 2}, channels[i + 1]);
    start_[up + ".bias"] = Tensor(DType::F32, {channels[i]});
    x = add({NetStep::Kind::ConvTranspose, up, {x}, channels[i], 2, 1, true});
    x = add({NetStep::Kind::Concat, cat("join", i), {skipped[i], x}, 2 * channels[i]});
    x = twice(x, cat("join", i), channels[i]);
  }
  add_conv(x, "head", classes_, 1, 1, true);
}

Value BuiltNetwork::append_norm(Graph& graph, Value x, const NetStep& step, const BuildOptions& options) const {
  const auto part = [&](const char* name) {
    return config_.affine ? weight(graph, step.name + name, options) : Value{};
  };
  const Value gamma = part(".weight"), beta = part(".bias");
  if (config_.norm == "instance") return instance_norm(x, gamma, beta, kNormEps);
  const Value mean = weight(graph, step.name + ".running_mean", options);
  const Value variance = weight(graph, step.name + ".running_var", options);
  // With adapters everything else is frozen, the statistics too.
  if (!options.training || !adapter_start_.empty()) return batch_norm(x, mean, variance, gamma, beta, kNormEps);
  const BatchNormResult result = batch_norm_training(x, mean, variance, gamma, beta, config_.momentum, kNormEps);
  graph.update(mean, result.running_mean);
  graph.update(variance, result.running_variance);
  return result.y;
}

Value BuiltNetwork::append(Graph& graph, Value image, const BuildOptions& options) const {
  std::vector<Value> made = {image};
  int64_t stream = kDropoutStream;
  for (const NetStep& step : steps_) {
    graph.set_label(step.name);
    const Value x = made[step.inputs[0]];
    const auto bias = [&] { return step.bias ? weight(graph, step.name + ".bias", options) : Value{}; };
    switch (step.kind) {
      case NetStep::Kind::Conv: {
        const int64_t pad = step.kernel / 2 * step.dilation;
        const Value w = weight(graph, step.name + ".weight", options);
        made.push_back(gyrus::conv(x, w,
                                   {.bias = bias(),
                                    .dilation = {step.dilation, step.dilation, step.dilation},
                                    .pads = {pad, pad, pad, pad, pad, pad}}));
        break;
      }
      case NetStep::Kind::ConvTranspose: {
        const Value w = weight(graph, step.name + ".weight", options);
        made.push_back(conv_transpose(x, w, {.bias = bias(), .stride = {2, 2, 2}}));
        break;
      }
      case NetStep::Kind::Norm: made.push_back(append_norm(graph, x, step, options)); break;
      case NetStep::Kind::Activation: made.push_back(activated(x, config_.activation)); break;
      case NetStep::Kind::Dropout: {
        made.push_back(options.training ? dropout_channels(x, options.key, stream, config_.dropout) : x);
        ++stream;
        break;
      }
      case NetStep::Kind::MaxPool: made.push_back(max_pool(x, {.kernel = {2, 2, 2}, .stride = {2, 2, 2}})); break;
      case NetStep::Kind::Concat: made.push_back(concat({x, made[step.inputs[1]]}, 1)); break;
    }
  }
  return made.back();
}

// The layer list that read_layer_list reads, with the weights under the names that it looks for.
std::map<std::string, std::vector<std::byte>> BuiltNetwork::files(const std::map<std::string, Tensor>& weights) const {
  if (is_onnx()) return {{"model.onnx", onnx(weights)}};
  Json layers = Json::array();
  for (const NetStep& step : steps_) {
    if (step.kind != NetStep::Kind::Conv) continue;
    layers.push_back({{"in_channels", channels_of(step.inputs[0])},
                      {"out_channels", step.channels},
                      {"kernel_size", step.kernel},
                      {"padding", step.kernel / 2 * step.dilation},
                      {"stride", 1},
                      {"dilation", step.dilation}});
  }
  const bool normed = config_.norm != "none";
  const std::string text = Json{
      {"header", "trained by gyrus"},
      {"bnorm", normed},
      {"bias", !normed},
      {"activation", config_.activation},
      {"layers", layers}}.dump(1);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {{"model.json", {bytes.begin(), bytes.end()}}, {"model.safetensors", write_safetensors(weights)}};
}

std::vector<std::byte> BuiltNetwork::onnx(const std::map<std::string, Tensor>& weights) const {
  OnnxWriter writer("image", "logits", classes_);
  std::vector<std::string> made = {"image"};
  for (size_t i = 0; i < steps_.size(); ++i) {
    const NetStep& step = steps_[i];
    const std::string x = made[step.inputs[0]];
    const std::string y = i + 1 == steps_.size() ? "logits" : step.name + ".out";
    const auto with = [&](const char* part) { return writer.weight(step.name + part, weights.at(step.name + part)); };
    switch (step.kind) {
      case NetStep::Kind::Conv:
      case NetStep::Kind::ConvTranspose: {
        std::vector<std::string> inputs = {x, with(".weight")};
        if (step.bias) inputs.push_back(with(".bias"));
        const bool up = step.kind == NetStep::Kind::ConvTranspose;
        const int64_t pad = up ? 0 : step.kernel / 2 * step.dilation, stride = up ? 2 : 1;
        writer.node(up ? "ConvTranspose" : "Conv", inputs, y,
                    {{"kernel_shape", std::vector<int64_t>(3, step.kernel)},
                     {"dilations", std::vector<int64_t>(3, step.dilation)},
                     {"strides", std::vector<int64_t>(3, stride)},
                     {"pads", std::vector<int64_t>(6, pad)}});
        break;
      }
      case NetStep::Kind::Norm: {
        const Shape line = {step.channels};
        const auto part = [&](const char* name, float value) {
          return config_.affine ? with(name) : writer.filled(step.name + name, line, value);
        };
        std::vector<std::string> inputs = {x, part(".weight", 1), part(".bias", 0)};
        if (config_.norm == "batch") inputs.insert(inputs.end(), {with(".running_mean"), with(".running_var")});
        writer.node(config_.norm == "batch" ? "BatchNormalization" : "InstanceNormalization", inputs, y,
                    {{"epsilon", kNormEps}});
        break;
      }
      case NetStep::Kind::Activation: writer.activation(config_.activation, x, y); break;
      case NetStep::Kind::Dropout: made.push_back(x); continue;
      case NetStep::Kind::MaxPool:
        writer.node("MaxPool", {x}, y,
                    {{"kernel_shape", std::vector<int64_t>(3, 2)}, {"strides", std::vector<int64_t>(3, 2)}});
        break;
      case NetStep::Kind::Concat: writer.node("Concat", {x, made[step.inputs[1]]}, y, {{"axis", int64_t{1}}}); break;
    }
    made.push_back(y);
  }
  return writer.bytes();
}

}  // namespace gyrus
