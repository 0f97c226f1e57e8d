#include "import/layer_list.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace gyrus {
namespace {

constexpr double kNormEps = 1e-5;  // torch's default, which the lists do not state
constexpr size_t kMostLayers = 4096;

struct Layer {
  JsonObject json;
  int64_t in_channels = -1, out_channels = -1;  // -1: unknown
  std::optional<bool> bias;
};

struct LayerList {
  bool norm = false;
  std::string activation;  // an op
  bool is_template = false;
  std::vector<Layer> layers;
};

void check_keys(const JsonObject& object, const std::set<std::string>& known) {
  for (auto it = object.json().begin(); it != object.json().end(); ++it) {
    if (known.count(it.key()) != 0 || (!it.key().empty() && it.key()[0] == '_')) continue;
    fail(ErrorCode::Unsupported, object.subject(), object.where(), object.where().empty() ? "" : ": ", "unknown key ",
         in_quotes(it.key()), " in the layer list");
  }
}

std::string read_activation(const JsonObject& list) {
  static const std::set<std::string> known = {"relu", "leaky_relu", "elu",  "gelu",
                                              "silu", "sigmoid",    "tanh", "softplus"};
  std::vector<std::string> named;
  if (list.has("activation")) named.push_back(list.text("activation"));
  for (const char* flag : {"relu", "elu", "gelu"}) {
    if (list.boolean(flag, false)) named.emplace_back(flag);
  }
  if (named.size() > 1) {
    fail(ErrorCode::InvalidModel, list.subject(), "two activations: ", in_quotes(named[0]), " and ",
         in_quotes(named[1]));
  }
  if (named.empty()) return "relu";
  if (known.count(named[0]) == 0)
    fail(ErrorCode::Unsupported, list.subject(), "unknown activation ", in_quotes(named[0]));
  return named[0];
}

LayerList read_list(const Json& json, const std::string& subject) {
  const JsonObject object(json, subject, "");
  check_keys(object, {"header", "comment", "description", "name", "bnorm", "relu", "elu", "gelu", "activation",
                      "dropout_p", "bias", "layers"});
  LayerList list;
  list.norm = object.boolean("bnorm", false);
  list.activation = read_activation(object);
  object.number("dropout_p", 0);  // does nothing at inference
  const Json& layers = object.array("layers");
  if (layers.empty() || layers.size() > kMostLayers)
    object.bad("layers", cat("a list of 1 to ", kMostLayers, " layers"));
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer layer{JsonObject(layers[i], subject, cat("layers[", i, "]")), -1, -1, {}};
    check_keys(layer.json,
               {"in_channels", "out_channels", "kernel_size", "padding", "stride", "dilation", "groups", "bias"});
    layer.in_channels = layer.json.integer("in_channels", -1);
    layer.out_channels = layer.json.integer("out_channels", -1);
    list.is_template = list.is_template || layer.in_channels < 0 || layer.out_channels < 0;
    // The list's own "bias" speaks of the hidden layers: MeshNet makes the last convolution with torch's default.
    const bool last = i + 1 == layers.size();
    if (layer.json.has("bias"))
      layer.bias = layer.json.boolean("bias", true);
    else if (last)
      layer.bias = true;
    else if (object.has("bias"))
      layer.bias = object.boolean("bias", true);
    list.layers.push_back(std::move(layer));
  }
  return list;
}

// The modules' names: PREFIX.LAYER.0 or PREFIX.(step * LAYER).
struct Naming {
  std::string prefix;  // with its dot
  bool nested = false;
  size_t step = 1;

  std::string conv(size_t layer) const { return cat(prefix, layer * step, nested ? ".0" : ""); }
  std::string last(size_t layer) const { return cat(prefix, layer * step); }
  std::string norm(size_t layer) const { return nested ? cat(prefix, layer, ".1") : cat(prefix, layer * step + 1); }
};

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 7 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Takes the part behind the last dot from `name`; empty where there is none.
std::string take_last(std::string& name) {
  const size_t dot = name.rfind('.');
  const std::string last = dot == std::string::npos ? name : name.substr(dot + 1);
  name.resize(dot == std::string::npos ? 0 : dot);
  return last;
}

// Reads the pattern off the convolutions' names, which are those of the weights with three axes or more.
Naming find_naming(const StateDict& weights, const std::string& subject) {
  Naming naming;
  bool found = false;
  for (const NamedTensor& entry : weights.entries()) {
    if (entry.tensor->shape.size() < 3) continue;
    std::string rest = entry.name;
    if (take_last(rest) != "weight") continue;
    std::string index = take_last(rest);
    std::string before = rest;
    const std::string outer = take_last(before);
    const bool nested = index == "0" && is_number(outer);
    if (nested) {
      rest = before;
      index = outer;
    }
    if (!is_number(index)) continue;
    const std::string prefix = rest.empty() ? "" : rest + ".";
    if (!found) naming = {prefix, nested, 0};
    found = true;
    if (prefix != naming.prefix) continue;  // reported as left over
    naming.nested = naming.nested || nested;
    naming.step = std::gcd(naming.step, static_cast<size_t>(std::stoul(index)));
  }
  if (!found) {
    fail(ErrorCode::InvalidModel, subject,
         "no convolution weights named like MeshNet's (model.0.weight or model.0.0.weight) in it");
  }
  if (naming.nested || naming.step == 0) naming.step = 1;
  return naming;
}

// Hands out the weights by name and knows which were never asked for.
class Weights {
 public:
  Weights(const StateDict& weights, const std::string& subject) : weights_(weights), subject_(subject) {}

  bool has(const std::string& name) const { return weights_.find(name) != nullptr; }
  NamedTensor take(const std::string& name) {
    const NamedTensor* found = weights_.find(name);
    if (found == nullptr) {
      fail(ErrorCode::InvalidModel, subject_, "weight ", in_quotes(name), " is missing: the layer list asks for it");
    }
    taken_.insert(name);
    return *found;
  }
  NamedTensor take_if(const std::string& name) { return has(name) ? take(name) : NamedTensor{name, nullptr}; }
  void check_all_taken() const {
    for (const NamedTensor& entry : weights_.entries()) {
      if (taken_.count(entry.name) != 0) continue;
      fail(ErrorCode::InvalidModel, subject_, "weight ", in_quotes(entry.name), " is left over (",
           weights_.entries().size() - taken_.size(), " in all): no layer of the list uses it");
    }
  }

 private:
  const StateDict& weights_;
  const std::string& subject_;
  std::set<std::string> taken_;
};

// What the weights hold of a norm; every hidden layer must hold the same.
enum class NormKind { Plain, Affine, Batch, BatchAffine };

NormKind norm_kind(const Weights& weights, const std::string& name) {
  const bool affine = weights.has(name + ".weight") || weights.has(name + ".bias");
  const bool batch = weights.has(name + ".running_mean") || weights.has(name + ".running_var");
  return batch ? (affine ? NormKind::BatchAffine : NormKind::Batch) : (affine ? NormKind::Affine : NormKind::Plain);
}

size_t add_norm(Network& network, size_t x, Weights& weights, const std::string& name, NormKind kind) {
  NamedTensor gamma, beta;
  if (kind == NormKind::Affine || kind == NormKind::BatchAffine) {
    gamma = weights.take(name + ".weight");
    beta = weights.take(name + ".bias");
  }
  if (kind == NormKind::Plain || kind == NormKind::Affine) return network.instance_norm(x, name, gamma, beta, kNormEps);
  const NamedTensor mean = weights.take(name + ".running_mean");
  const NamedTensor variance = weights.take(name + ".running_var");
  weights.take_if(name + ".num_batches_tracked");  // counts training steps; means nothing here
  return network.batch_norm(x, name, mean, variance, gamma, beta, kNormEps);
}

void check_shape(const Layer& layer, const NamedTensor& weight, const Convolution& conv, bool is_template,
                 const std::string& subject) {
  const Shape& shape = weight.tensor->shape;
  const std::vector<int64_t> kernel = layer.json.integers("kernel_size", shape.size() - 2, 1);
  if (!std::equal(kernel.begin(), kernel.end(), shape.begin() + 2)) {
    fail(ErrorCode::InvalidModel, subject, "weight ", in_quotes(weight.name), " is ", to_string(shape), ", but ",
         layer.json.where(), " has the kernel ", to_string(Shape(kernel)));
  }
  if (!is_template && (shape[0] != layer.out_channels || shape[1] * conv.groups != layer.in_channels)) {
    fail(ErrorCode::InvalidModel, subject, "weight ", in_quotes(weight.name), " is ", to_string(shape), ", but ",
         layer.json.where(), " goes from ", layer.in_channels, " to ", layer.out_channels, " channels");
  }
}

Convolution read_conv(const LayerList& list, size_t i, const std::string& name, Weights& weights, size_t spatial_rank,
                      const std::string& subject) {
  const Layer& layer = list.layers[i];
  Convolution conv;
  conv.label = name;
  conv.weight = weights.take(name + ".weight");
  if (conv.weight.tensor->shape.size() != spatial_rank + 2) {
    fail(ErrorCode::InvalidModel, subject, "weight ", in_quotes(conv.weight.name), " is ",
         to_string(conv.weight.tensor->shape), ", wanted ", spatial_rank + 2, " axes");
  }
  if (!layer.json.has("kernel_size")) layer.json.bad("kernel_size", "an integer");
  conv.stride = layer.json.integers("stride", spatial_rank, 1);
  conv.dilation = layer.json.integers("dilation", spatial_rank, 1);
  const std::vector<int64_t> padding = layer.json.integers("padding", spatial_rank, 0);
  conv.pads = padding;
  conv.pads.insert(conv.pads.end(), padding.begin(), padding.end());
  conv.groups = layer.json.integer("groups", 1);
  if (conv.groups < 1 || conv.groups > conv.weight.tensor->shape[0])
    layer.json.bad("groups", "a divisor of the channels");
  check_shape(layer, conv.weight, conv, list.is_template, subject);
  const std::string bias = name + ".bias";
  if (layer.bias.value_or(false))
    conv.bias = weights.take(bias);
  else if (!layer.bias.has_value())
    conv.bias = weights.take_if(bias);
  return conv;
}

}  // namespace

bool is_layer_list(const Json& json) {
  if (!json.is_object()) return false;
  const auto layers = json.find("layers");
  return layers != json.end() && layers->is_array() && !layers->empty() && layers->front().is_object() &&
         layers->front().contains("kernel_size");
}

Network read_layer_list(const Json& json, const std::string& json_subject, const StateDict& state,
                        const std::string& subject) {
  const LayerList list = read_list(json, json_subject);
  check_finite(state, subject);
  const Naming naming = find_naming(state, subject);
  Weights weights(state, subject);
  const size_t n = list.layers.size();
  const bool bare_last = weights.has(naming.last(n - 1) + ".weight");
  const auto name_of = [&](size_t i) { return i + 1 == n && bare_last ? naming.last(i) : naming.conv(i); };

  const Shape first = weights.take(name_of(0) + ".weight").tensor->shape;
  if (first.size() < 3 || first.size() > 5) {
    fail(ErrorCode::InvalidModel, subject, "weight ", in_quotes(name_of(0) + ".weight"), " is ", to_string(first),
         ", wanted 3 to 5 axes");
  }
  const size_t spatial_rank = first.size() - 2;
  Convolution conv = read_conv(list, 0, name_of(0), weights, spatial_rank, subject);
  const bool hidden_bias = conv.bias.tensor != nullptr;
  const NormKind kind = norm_kind(weights, naming.norm(0));

  // No overflow: groups is at most first[0], and the extents of a tensor multiply to less than 2^48.
  Network network(subject, spatial_rank, first[1] * conv.groups);
  size_t x = network.image();
  for (size_t i = 0; i < n; ++i) {
    const bool last = i + 1 == n;
    if (!last && (conv.bias.tensor != nullptr) != hidden_bias && !list.layers[i].bias.has_value()) {
      fail(ErrorCode::InvalidModel, subject, "weight ", in_quotes(conv.label + ".bias"), " is ",
           hidden_bias ? "missing" : "left over", ": the first layer says otherwise");
    }
    x = network.conv(x, std::move(conv));
    if (last) break;
    if (list.norm) x = add_norm(network, x, weights, naming.norm(i), kind);
    x = network.activation(x, cat(naming.last(i), ".", list.activation), list.activation);
    conv = read_conv(list, i + 1, name_of(i + 1), weights, spatial_rank, subject);
  }
  weights.check_all_taken();
  return network;
}

}  // namespace gyrus
