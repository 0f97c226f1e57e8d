// One training step (forward, backward, Adam) of three networks: time and memory; of the MeshNet also with all that
// augment() does before it, in halves, and with activations made again.
//   train [--quick] [--only WORD] [--default-limits] [--json FILE]
// bench/peers/torch_train.py measures the same networks in PyTorch. With --only and one name the kernels that take
// longest are listed.
#include <map>

#include "common.h"
#include "gyrus/gyrus.h"

using namespace gyrus;
using namespace gyrus::bench;

namespace {

constexpr const char* kUsage = "train [--quick] [--only WORD] [--default-limits] [--json FILE]";
constexpr int kSteps = 6;

// Numbers of both signs, about as large as weights that start.
Tensor numbers(const Shape& shape, double size, int64_t seed = 1) {
  Tensor t(DType::F32, shape);
  uint64_t state = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15ull;
  for (int64_t i = 0; i < t.size(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    set(t, i, size * (static_cast<double>(state >> 40) / 8388608.0 - 1));
  }
  return t;
}

Tensor classes(const Shape& shape, int64_t count) {
  Tensor t(DType::U8, shape);
  for (int64_t i = 0; i < t.size(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(i / 7 % count);
  return t;
}

struct Network {
  std::string name;
  Graph graph;
  std::map<std::string, Tensor> inputs;
  TrainerOptions options{};

  Value input(const std::string& port, Tensor tensor) {
    const Value value = graph.input(port, tensor.dtype, tensor.shape);
    inputs[port] = std::move(tensor);
    return value;
  }
  Value weight(const std::string& part, const Shape& shape) {
    const int64_t fan = std::max<int64_t>(1, element_count(shape) / shape[0]);
    return graph.parameter(
        part, numbers(shape, 1 / std::sqrt(static_cast<double>(fan)), static_cast<int64_t>(graph.states().size()) + 1));
  }
  Value ones(const std::string& part, int64_t count) {
    Tensor t(DType::F32, {count});
    for (int64_t i = 0; i < count; ++i) set(t, i, 1);
    return graph.parameter(part, std::move(t));
  }
  Value zeros(const std::string& part, int64_t count) { return graph.parameter(part, Tensor(DType::F32, {count})); }
};

AugmentOptions everything(bool synthesize, int64_t labels) {
  AugmentOptions o;
  o.flip[0] = o.flip[1] = o.flip[2] = true;
  o.rotate = 15;
  o.scale = o.shear = 0.1;
  o.translate = 5;
  o.elastic = 2;
  o.noise = o.bias = o.gamma = o.contrast = o.brightness = 0.1;
  o.blur = 1;
  o.resolution = 4;
  o.synthesize = synthesize;
  o.labels = labels;
  return o;
}

// Ten layers of 15 channels with instance norm. `what` is "", "augmented", "synthesised", "f16" or "cheap".
Network meshnet(int64_t n, const std::string& what = {}) {
  Network net{cat("meshnet ", n, what.empty() ? "" : " ", what), {}, {}};
  constexpr int64_t kChannels = 15, kClasses = 3;
  Value x = net.input("x", numbers({1, 1, n, n, n}, 1));
  Value target = net.input("target", classes({1, n, n, n}, kClasses));
  if (what == "augmented" || what == "synthesised") {
    const Augmented made =
        augment(x, cast(target, DType::I32), random_key(net.graph), 0, everything(what == "synthesised", kClasses));
    x = made.image;
    target = made.labels;
  }
  if (what == "f16") {
    net.options.program.precision = Precision::F16;
    net.options.training.loss_scaling = LossScaling{};
  }
  if (what == "cheap") net.options.training.recompute = Recompute::Cheap;
  int64_t layer = 0;
  for (const int64_t d : {1, 2, 4, 8, 16, 8, 4, 2, 1}) {
    const std::string name = cat("layer", layer++);
    net.graph.set_label(name);
    x = gyrus::conv(x, net.weight(name + ".weight", {kChannels, x.shape()[1], 3, 3, 3}),
                    {.dilation = {d, d, d}, .pads = {d, d, d, d, d, d}});
    x = gelu(instance_norm(x));
  }
  net.graph.set_label("head");
  x = gyrus::conv(x, net.weight("head.weight", {kClasses, kChannels, 1, 1, 1}),
                  {.bias = net.zeros("head.bias", kClasses)});
  net.graph.set_label("loss");
  net.graph.output("loss", cross_entropy(x, target));
  return net;
}

// 32 to 256 channels over 256² pixels.
Network unet(int64_t batch, int64_t n) {
  Network net{cat("unet ", batch, " x ", n), {}, {}};
  const auto block = [&](Value x, int64_t out, const std::string& name) {
    net.graph.set_label(name);
    x = gyrus::conv(x, net.weight(name + ".weight", {out, x.shape()[1], 3, 3}), {.pads = {1, 1, 1, 1}});
    return silu(group_norm(x, 8, net.ones(name + ".gamma", out), net.zeros(name + ".beta", out)));
  };
  const auto twice = [&](Value x, int64_t out, const std::string& name) {
    return block(block(x, out, name + ".0"), out, name + ".1");
  };
  Value x = net.input("x", numbers({batch, 1, n, n}, 1));
  const Value target = net.input("target", classes({batch, n, n}, 3));
  std::vector<Value> skipped;
  for (const int64_t c : {32, 64, 128}) {
    x = twice(x, c, cat("down", c));
    skipped.push_back(x);
    x = max_pool(x, {.kernel = {2, 2}, .stride = {2, 2}});
  }
  x = twice(x, 256, "middle");
  for (const int64_t c : {128, 64, 32}) {
    net.graph.set_label(cat("up", c));
    x = conv_transpose(x, net.weight(cat("up", c, ".weight"), {x.shape()[1], c, 2, 2}), {.stride = {2, 2}});
    x = twice(concat({skipped.back(), x}, 1), c, cat("join", c));
    skipped.pop_back();
  }
  net.graph.set_label("head");
  x = gyrus::conv(x, net.weight("head.weight", {3, 32, 1, 1}), {.bias = net.zeros("head.bias", 3)});
  net.graph.output("loss", cross_entropy(x, target));
  return net;
}

Network encoder(int64_t batch, int64_t tokens, int64_t width, int64_t layers) {
  Network net{cat("encoder ", batch, " x ", tokens, " x ", width), {}, {}};
  Value x = net.input("x", numbers({batch, tokens, width}, 1));
  const Value target = net.input("target", numbers({batch, tokens, width}, 1, 2));
  const int64_t heads = width / 64;
  const auto projected = [&](Value h, int64_t out, const std::string& name) {
    net.graph.set_label(name);
    return linear(h, net.weight(name + ".weight", {out, h.shape().back()}), net.zeros(name + ".bias", out));
  };
  const auto norm = [&](const std::string& name) {
    net.graph.set_label(name);
    return layer_norm(x, net.ones(name + ".weight", width), net.zeros(name + ".bias", width));
  };
  for (int64_t i = 0; i < layers; ++i) {
    const std::string layer = cat("layer", i, ".");
    Value h = norm(layer + "norm1");
    const auto part = [&](const char* name) {
      return transpose(reshape(projected(h, width, layer + name), {batch, tokens, heads, 64}), {0, 2, 1, 3});
    };
    const Value q = part("q"), k = part("k"), v = part("v");
    net.graph.set_label(layer + "attention");
    const Value seen = attention(q, k, v);
    x = x + projected(reshape(transpose(seen, {0, 2, 1, 3}), {batch, tokens, width}), width, layer + "out");
    h = norm(layer + "norm2");
    x = x + projected(gelu(projected(h, 4 * width, layer + "up")), width, layer + "down");
  }
  net.graph.output("loss", mse(x, target));
  return net;
}

void list_kernels(const Profile& profile) {
  std::map<std::string, std::pair<double, int>> by_kernel;
  for (const StepTime& step : profile.steps) {
    auto& [ms, count] = by_kernel[step.kernel];
    ms += static_cast<double>(step.end_ns - step.begin_ns) * 1e-6;
    ++count;
  }
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [kernel, cost] : by_kernel) sorted.push_back({cost.first, cat(kernel, " × ", cost.second)});
  std::sort(sorted.rbegin(), sorted.rend());
  for (size_t i = 0; i < std::min<size_t>(30, sorted.size()); ++i)
    std::printf("  %8.3f ms  %s\n", sorted[i].first, sorted[i].second.c_str());
}

void measure(const Device& device, const Arguments& a, WarmUp& warm_up, const Network& net, nlohmann::json& report) {
  TrainerOptions options = net.options;
  uint64_t bytes = 0;
  options.program.planned = [&](const Planned& planned) { bytes = planned.bytes; };
  if (a.default_limits) options.program.limits = default_limits();
  Trainer trainer(device, net.graph, options);
  double best = 0, loss = 0;
  for (int i = 0; i < kSteps; ++i) {
    warm_up.run();
    const StepResult step = trainer.step(net.inputs);
    const double ms = step.profile.gpu_seconds * 1e3;
    if (i > 0 && (best == 0 || ms < best)) best = ms;
    loss = step.loss;
  }
  const double mib = static_cast<double>(bytes + trainer.memory().bytes()) / (1 << 20);
  std::printf("%-26s %9.2f ms   %8.0f MiB   loss %.5f\n", net.name.c_str(), best, mib, loss);
  if (!a.only.empty()) {
    RunOptions run;
    run.profile = true;
    list_kernels(trainer.step(net.inputs, run).profile);
  }
  report["results"].push_back({{"network", net.name}, {"ms", best}, {"mib", mib}, {"loss", loss}});
  save(a, report);
}

int run(int argc, char** argv) {
  const Arguments a = parse(argc, argv, kUsage);
  const Limits limits = default_limits();
  const Device device = bench::open_best(a.default_limits ? &limits : nullptr);
  nlohmann::json report = report_of(device);
  std::printf("%s\n", device.adapter().name.c_str());
  WarmUp warm_up(device);
  std::vector<std::function<Network()>> networks = {[] { return meshnet(64); }};
  if (!a.quick) {
    networks.push_back([] { return meshnet(128); });
    networks.push_back([] { return meshnet(256); });
    for (const char* what : {"augmented", "synthesised", "f16", "cheap"})
      for (const int64_t n : {128, 256}) networks.push_back([=] { return meshnet(n, what); });
    networks.push_back([] { return unet(8, 256); });
    networks.push_back([] { return encoder(8, 512, 768, 2); });
  } else {
    networks = {[] { return meshnet(24); },
                [] { return meshnet(48); },
                [] { return meshnet(48, "augmented"); },
                [] { return meshnet(48, "synthesised"); },
                [] { return unet(1, 32); },
                [] { return encoder(1, 32, 128, 1); }};
  }
  for (const auto& make : networks) {
    const Network net = make();
    if (net.name.find(a.only) != std::string::npos) measure(device, a, warm_up, net, report);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
