#include "support/training_nets.h"

#include <cmath>
#include <fstream>

#include "core/error.h"
#include "core/tensor.h"
#include "import/safetensors.h"

namespace gyrus::test {
namespace {

using Json = nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

// The tensors of a file, those of f64 as they are.
Tensors tensors_of(const std::filesystem::path& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  const StateDict dict = read_safetensors(std::as_bytes(std::span(bytes)), path.filename().string());
  Tensors all;
  for (const auto& entry : dict.entries()) all[entry.name] = *entry.tensor;
  return all;
}

Tensors with_prefix(const Tensors& all, const std::string& prefix) {
  Tensors found;
  for (const auto& [name, tensor] : all)
    if (name.compare(0, prefix.size(), prefix) == 0) found[name.substr(prefix.size())] = tensor;
  return found;
}

// Parameters by name, as values of a graph.
class Parameters {
 public:
  Parameters(Graph& graph, const Tensors& start) {
    for (const auto& [name, tensor] : start) values_[name] = graph.parameter(name, tensor);
  }
  Value operator[](const std::string& name) const { return values_.at(name); }
  Value or_none(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? Value{} : found->second;
  }

 private:
  std::map<std::string, Value> values_;
};

Value activated(const std::string& name, Value x) {
  if (name == "relu") return relu(x);
  if (name == "gelu") return gelu(x);
  if (name == "silu") return silu(x);
  fail(ErrorCode::Unsupported, name, "no such activation in these tests");
}

Value input(TrainingNet& net, const std::string& name, const Tensor& tensor) {
  net.inputs[name] = tensor;
  return net.graph.input(name, tensor.dtype, tensor.shape);
}

void build_meshnet(TrainingNet& net, const Json& config, const Tensors& file, const Parameters& p) {
  Value x = input(net, "x", file.at("input/x"));
  const Value target = input(net, "target", file.at("input/target"));
  size_t i = 0;
  for (const int64_t d : config["dilations"].get<std::vector<int64_t>>()) {
    const std::string layer = "layers." + std::to_string(i++);
    x = conv(x, p[layer + ".weight"], {.dilation = {d, d, d}, .pads = {d, d, d, d, d, d}});
    x = instance_norm(x, p.or_none(layer + ".gamma"), p.or_none(layer + ".beta"), config["eps"]);
    x = activated(config["activation"], x);
  }
  const Value y = conv(x, p["head.weight"], {.bias = p["head.bias"]});
  net.graph.output("y", y);
  net.graph.output("loss", cross_entropy(y, target));
}

void build_unet(TrainingNet& net, const Json& config, const Tensors& file, const Parameters& p) {
  const int64_t groups = config["groups"];
  const double eps = config["eps"];
  const auto block = [&](Value x, const std::string& name) {
    x = conv(x, p[name + ".conv.weight"], {.pads = {1, 1, 1, 1}});
    return silu(group_norm(x, groups, p[name + ".norm.weight"], p[name + ".norm.bias"], eps));
  };
  const auto down = [&](Value x, const std::string& name) {
    return conv(x, p[name + ".weight"], {.bias = p[name + ".bias"], .stride = {2, 2}, .pads = {1, 1, 1, 1}});
  };
  const auto up = [&](Value x, const std::string& name) {
    return conv_transpose(x, p[name + ".weight"], {.bias = p[name + ".bias"], .stride = {2, 2}});
  };
  Value x = input(net, "x", file.at("input/x"));
  const Value target = input(net, "target", file.at("input/target"));
  const Value s0 = block(block(x, "enc0.0"), "enc0.1");
  const Value s1 = block(down(s0, "down0"), "enc1.0");
  x = up(block(down(s1, "down1"), "mid"), "up1");
  x = up(block(concat({s1, x}, 1), "dec1"), "up0");
  x = block(concat({s0, x}, 1), "dec0");
  const Value y = conv(x, p["head.weight"], {.bias = p["head.bias"]});
  net.graph.output("y", y);
  DiceOptions options;
  options.batch = true;
  net.graph.output("loss", cross_entropy(y, target) + dice(y, target, options) * config["dice_weight"].get<double>());
}

Value heads_of(Value x, int64_t heads) {
  const Shape s = x.shape();
  return transpose(reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

Value joined(Value x) {
  const Shape s = x.shape();
  return reshape(transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

void build_encoder(TrainingNet& net, const Json& config, const Tensors& file, const Parameters& p) {
  const double eps = config["eps"];
  const int64_t heads = config["heads"];
  Value x = input(net, "x", file.at("input/x"));
  const Value mask = input(net, "mask", file.at("input/mask")), target = input(net, "target", file.at("input/target"));
  const Shape shape = x.shape();
  AttentionOptions attend;
  attend.mask = reshape(mask, {shape[0], 1, 1, shape[1]});
  for (int64_t i = 0; i < config["layers"].get<int64_t>(); ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    const auto projected = [&](Value h, const std::string& name) {
      return linear(h, p[layer + name + ".weight"], p.or_none(layer + name + ".bias"));
    };
    const auto norm = [&](const std::string& name) {
      return layer_norm(x, p[layer + name + ".weight"], p[layer + name + ".bias"], -1, eps);
    };
    Value h = norm("norm1");
    const Value seen = attention(heads_of(projected(h, "q"), heads), heads_of(projected(h, "k"), heads),
                                 heads_of(projected(h, "v"), heads), attend);
    x = x + projected(joined(seen), "out");
    h = norm("norm2");
    x = x + projected(activated(config["activation"], projected(h, "up")), "down");
  }
  const Value y = layer_norm(x, p["norm.weight"], p["norm.bias"], -1, eps);
  net.graph.output("y", y);
  const Value here = cast(reshape(mask, {shape[0], shape[1], 1}), DType::F32);
  net.graph.output("loss", reduce_sum(square(y - target) * here) / (reduce_sum(here) * static_cast<double>(shape[2])));
}

void build_lm(TrainingNet& net, const Json& config, const Tensors& file, const Parameters& p) {
  const double eps = config["eps"];
  const Value tokens = input(net, "tokens", file.at("input/train_tokens"));
  const Shape shape = tokens.shape();
  const int64_t length = shape[1] - 1, depth = config["head_dim"];
  const Value target = slice(tokens, {0, 1}, shape);
  Value x = embedding(p["embed.weight"], slice(tokens, {0, 0}, {shape[0], length}));
  RopeOptions turn;
  turn.base = config["rope_base"];
  turn.interleaved = config["rope_interleaved"];
  AttentionOptions attend;
  attend.causal = true;
  for (int64_t i = 0; i < config["layers"].get<int64_t>(); ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    const auto projected = [&](Value h, const std::string& name) { return linear(h, p[layer + name + ".weight"]); };
    Value h = rms_norm(x, p[layer + "attn_norm.weight"], -1, eps);
    const auto heads = [&](const std::string& name) {
      const Value all = projected(h, name);
      return heads_of(all, all.shape()[2] / depth);
    };
    x = x + projected(joined(attention(rope(heads("q"), turn), rope(heads("k"), turn), heads("v"), attend)), "out");
    h = rms_norm(x, p[layer + "mlp_norm.weight"], -1, eps);
    x = x + projected(silu(projected(h, "gate")) * projected(h, "up"), "down");
  }
  const Value y = linear(rms_norm(x, p["norm.weight"], -1, eps), p["head.weight"]);
  net.graph.output("y", y);
  net.graph.output("loss", cross_entropy(transpose(y, {0, 2, 1}), target));
}

void read_optimizer(TrainingNet& net, const Json& json) {
  Optimizer& o = net.options.training.optimizer;
  const std::string kind = json["kind"];
  o.kind = kind == "sgd" ? OptimizerKind::Sgd : kind == "adam" ? OptimizerKind::Adam : OptimizerKind::AdamW;
  net.options.schedule.rate = json["lr"];
  o.momentum = json.value("momentum", 0.0);
  o.nesterov = json.value("nesterov", false);
  o.weight_decay = json.value("weight_decay", 0.0);
  o.eps = json.value("eps", 1e-8);
  if (json.contains("betas")) {
    o.beta1 = json["betas"][0];
    o.beta2 = json["betas"][1];
  }
  if (json.contains("clip_grad_norm")) net.options.training.clip_norm = json["clip_grad_norm"].get<double>();
  if (!json.contains("decayed")) return;
  for (const std::string& name : json["decayed"].get<std::vector<std::string>>())
    net.options.training.groups.push_back({.pattern = name, .weight_decay = o.weight_decay});
  net.options.training.groups.push_back({.pattern = "*", .weight_decay = 0});
}

}  // namespace

TrainingNet small_meshnet(const std::string& optimizer) {
  const std::filesystem::path folder = test_data() / "training";
  TrainingNet net;
  const Tensors batch = tensors_of(folder / "batch.safetensors"), start = tensors_of(folder / "init.safetensors");
  net.captures = tensors_of(folder / "captures_step0.safetensors");
  for (auto& [name, tensor] : net.captures) tensor.shape.insert(tensor.shape.begin(), 1);
  net.gradients = tensors_of(folder / "grads_step0.safetensors");
  net.final = tensors_of(folder / ("final_" + optimizer + ".safetensors"));
  net.losses = Json::parse(std::ifstream(folder / "losses.json"))[optimizer]["loss_f64"].get<std::vector<double>>();
  Optimizer& o = net.options.training.optimizer;
  o.kind = optimizer == "sgd" ? OptimizerKind::Sgd : optimizer == "adam" ? OptimizerKind::Adam : OptimizerKind::AdamW;
  net.options.schedule.rate = optimizer == "sgd" ? 0.1 : 0.01;
  if (optimizer == "sgd") o.momentum = 0.9;
  if (optimizer == "adamw") o.weight_decay = 0.01;
  const Parameters p(net.graph, start);
  Value x = input(net, "image", batch.at("image"));
  const Value target = input(net, "labels", batch.at("labels"));
  const int64_t dilations[] = {1, 2, 4, 1};
  for (size_t i = 0; i < 4; ++i) {
    const int64_t d = dilations[i];
    const std::string n = std::to_string(i);
    x = conv(x, p["conv" + n + ".weight"],
             {.bias = p["conv" + n + ".bias"], .dilation = {d, d, d}, .pads = {d, d, d, d, d, d}});
    x = gelu(group_norm(x, 5, p["norm" + n + ".weight"], p["norm" + n + ".bias"]));
    net.graph.capture("layer" + n, x);
  }
  const Value y = conv(x, p["head.weight"], {.bias = p["head.bias"]});
  net.graph.output("y", y);
  net.graph.output("loss", cross_entropy(y, target));
  return net;
}

TrainingNet golden_net(const std::string& name) {
  const std::filesystem::path folder = test_data() / "goldens";
  const Json json = Json::parse(std::ifstream(folder / ("net_" + name + ".json")));
  const Tensors file = tensors_of(folder / ("net_" + name + ".safetensors"));
  TrainingNet net;
  const Parameters p(net.graph, with_prefix(file, "param/"));
  const Json& config = json["config"];
  if (name == "meshnet3d") build_meshnet(net, config, file, p);
  if (name == "unet2d") build_unet(net, config, file, p);
  if (name == "encoder") build_encoder(net, config, file, p);
  if (name == "lm") build_lm(net, config, file, p);
  read_optimizer(net, json["optimizer"]);
  net.gradients = with_prefix(file, "grad/");
  net.final = with_prefix(file, "final/");
  const Tensor& losses = file.at(json["losses"]);
  for (int64_t i = 0; i < losses.size(); ++i) net.losses.push_back(get(losses, i));
  return net;
}

}  // namespace gyrus::test
