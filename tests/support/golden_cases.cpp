#include "support/golden_cases.h"

#include <algorithm>
#include <cmath>

#include "gyrus/neighbours.h"
#include "gyrus/routing.h"
#include "gyrus/scans.h"
#include "ops/building.h"
#include "support/test_data.h"
#include "train/autodiff.h"

namespace gyrus::test {
namespace {

Value activated(const std::string& name, Value x) {
  if (name == "relu") return relu(x);
  if (name == "gelu") return gelu(x);
  if (name == "gelu_tanh") return gelu_tanh(x);
  if (name == "silu") return silu(x);
  return x;
}

// A vector counts as a matrix of one row or column.
Value product(const Case& c) {
  Value a = c["a"], b = c["b"];
  const Shape as = a.shape(), bs = b.shape();
  if (as.size() == 1) a = reshape(a, {1, as[0]});
  if (bs.size() == 1) b = reshape(b, {bs[0], 1});
  Value y = matmul(
      a, b,
      {.transpose_a = c.flag("transpose_a") && as.size() > 1, .transpose_b = c.flag("transpose_b") && bs.size() > 1});
  Shape shape = y.shape();
  if (bs.size() == 1) shape.pop_back();
  if (as.size() == 1) shape.erase(shape.end() - (bs.size() == 1 ? 1 : 2));
  return shape == y.shape() ? y : reshape(y, shape);
}

RecurrentResult recurrent(const Case& c) {
  std::vector<RecurrentWeights> layers;
  for (int64_t l = 0; l < c.integer("layers"); ++l)
    for (const std::string side : {"", "_reverse"}) {
      if (!side.empty() && !c.flag("bidirectional")) continue;
      const std::string name = "_l" + std::to_string(l) + side;
      layers.push_back({c["w_ih" + name], c["w_hh" + name], c["b_ih" + name], c["b_hh" + name]});
    }
  const RecurrentOptions options{c.flag("bidirectional"), c["h0"], c["c0"]};
  return c.op() == "lstm" ? lstm(c["x"], layers, options) : gru(c["x"], layers, options);
}

FftOptions transform(const Case& c) {
  const std::map<std::string, FftNorm> norms = {
      {"backward", FftNorm::Backward}, {"ortho", FftNorm::Ortho}, {"forward", FftNorm::Forward}};
  FftOptions options{{}, c.integer("axis"), norms.at(c.attr("norm"))};
  if (c.given("n")) options.n = c.integer("n");
  return options;
}

StftOptions short_transforms(const Case& c) {
  return {.n_fft = c.integer("n_fft"), .hop = c.integer("hop"), .window = c["window"], .center = c.flag("center")};
}

Tensor filters(const Case& c) {
  MelOptions options{c.number("sample_rate"), c.integer("n_fft"), c.integer("n_mels"), c.number("f_min")};
  options.f_max = c.number("f_max");
  options.scale = c.attr("scale") == "htk" ? MelScale::Htk : MelScale::Slaney;
  options.normalized = c.given("norm");
  return mel_filters(options);
}

LogMelOptions log_mels(const Case& c) {
  LogMelOptions options{.stft = short_transforms(c), .drop_last_frame = c.flag("drop_last_frame")};
  if (c.attr("log") == "ln") options.log = MelLog::Ln;
  if (c.given("floor")) options.floor = c.number("floor");
  return options;
}

InterpolateOptions interpolation(const Case& c) {
  const std::map<std::string, Interpolation> modes = {{"nearest", Interpolation::Nearest},
                                                      {"nearest_exact", Interpolation::NearestExact},
                                                      {"linear", Interpolation::Linear},
                                                      {"cubic", Interpolation::Cubic}};
  InterpolateOptions options{modes.at(c.attr("mode")), c.flag("align_corners"), {}};
  if (c.given("scale_factors")) options.scale = c.attr("scale_factors").get<std::vector<double>>();
  return options;
}

AttentionOptions attention_options(const Case& c) {
  AttentionOptions options{c["mask"], c["bias"], c.flag("causal"), {}, {}, {}};
  if (c.given("window")) options.window = c.integer("window");
  if (c.given("scale")) options.scale = c.number("scale");
  if (c.given("softcap")) options.softcap = c.number("softcap");
  return options;
}

RopeOptions rope_options(const Case& c) {
  RopeOptions options;
  options.n_rot = c.integer("n_rot");
  options.interleaved = c.flag("interleaved");
  if (c.given("base")) options.base = c.number("base");
  if (c.given("offset")) options.offset = c.integer("offset");
  options.positions = c["positions"];
  options.cos = c["cos"];
  options.sin = c["sin"];
  return options;
}

Value padding(const Case& c) {
  const std::string mode = c.attr("mode");
  if (mode == "constant") return pad(c["x"], c.ints("pads"), c.given("value") ? c.number("value") : 0);
  return pad(c["x"], c.ints("pads"),
             mode == "reflect"     ? PadMode::Reflect
             : mode == "replicate" ? PadMode::Edge
                                   : PadMode::Wrap);
}

// Starts and ends clamped as the conventions say.
Value sliced(const Case& c) {
  const Value x = c["x"];
  Ints starts = c.ints("starts"), ends = c.ints("ends"), steps = c.ints("steps");
  for (size_t a = 0; a < starts.size(); ++a) {
    const int64_t n = x.shape()[a], lo = steps[a] < 0 ? -1 : 0, hi = steps[a] < 0 ? n - 1 : n;
    starts[a] = std::clamp(starts[a] < 0 ? starts[a] + n : starts[a], lo, hi);
    ends[a] = std::clamp(ends[a] < 0 ? ends[a] + n : ends[a], lo, hi);
    if (starts[a] < 0)  // before the first element: nothing
      starts[a] = ends[a] = 0;
    else if (ends[a] < 0)
      ends[a] = -n - 1;
  }
  return slice(x, starts, ends, steps);
}

Value per_channel(Value weight, const Shape& x) {
  Shape shape(x.size(), 1);
  if (x.size() > 1 && element_count(weight.shape()) > 1) shape[1] = x[1];
  return reshape(weight, shape);
}

// Indices of some rows of an axis as those of all their elements.
Value index_rows(const Case& c) {
  const Shape src = c["src"].shape();
  const auto rank = static_cast<int64_t>(src.size());
  const int64_t axis = (c.integer("axis") + rank) % rank;
  Shape line(src.size(), 1);
  line[static_cast<size_t>(axis)] = src[static_cast<size_t>(axis)];
  return scatter_elements(c["x"], expand(reshape(c["indices"], line), src), c["src"] * c.number("alpha"), axis, "add");
}

SelectiveScanOptions selective_options(const Case& c) {
  return {c["D"], c["z"], c["delta_bias"], c.flag("delta_softplus"), c["h0"]};
}

DeltaRuleOptions delta_options(const Case& c) {
  DeltaRuleOptions options{{}, c.flag("l2norm"), c["s0"]};
  if (c.given("scale")) options.scale = c.number("scale");
  return options;
}

LossOver over_of(const Case& c) {
  const std::map<std::string, LossOver> all = {
      {"mean", LossOver::Mean}, {"sum", LossOver::Sum}, {"none", LossOver::None}, {"batchmean", LossOver::Batch}};
  return all.at(c.attr("reduction"));
}

ClassLossOptions class_options(const Case& c) {
  ClassLossOptions options{c["weight"], {}, 0, over_of(c)};
  if (c.given("ignore_index")) options.ignore_index = c.integer("ignore_index");
  if (c.given("label_smoothing")) options.label_smoothing = c.number("label_smoothing");
  return options;
}

}  // namespace

const std::map<std::string, Build>& builds() {
  using Unary = Value (*)(Value);
  using Binary = Value (*)(Value, Value);
  static const std::map<std::string, Build> all = [] {
    std::map<std::string, Build> map;
    const std::map<std::string, Unary> unary = {{"exp", exp},
                                                {"log", log},
                                                {"log1p", log1p},
                                                {"expm1", expm1},
                                                {"sqrt", sqrt},
                                                {"rsqrt", rsqrt},
                                                {"abs", abs},
                                                {"neg", neg},
                                                {"sign", sign},
                                                {"floor", floor},
                                                {"ceil", ceil},
                                                {"round", round},
                                                {"sin", sin},
                                                {"cos", cos},
                                                {"tan", tan},
                                                {"asin", asin},
                                                {"acos", acos},
                                                {"atan", atan},
                                                {"sinh", sinh},
                                                {"cosh", cosh},
                                                {"tanh", tanh},
                                                {"erf", erf},
                                                {"sigmoid", sigmoid},
                                                {"relu", relu},
                                                {"selu", selu},
                                                {"gelu", gelu},
                                                {"silu", silu},
                                                {"mish", mish},
                                                {"square", square},
                                                {"gelu_tanh", gelu_tanh},
                                                {"hardswish", hard_swish},
                                                {"softsign", softsign},
                                                {"reciprocal", reciprocal}};
    for (const auto& [name, f] : unary) map[name] = [f = f](const Case& c) { return Values{f(c["x"])}; };
    const std::map<std::string, Binary> binary = {{"add", add},
                                                  {"sub", sub},
                                                  {"mul", mul},
                                                  {"div", div},
                                                  {"pow", pow},
                                                  {"min", min},
                                                  {"max", max},
                                                  {"atan2", atan2},
                                                  {"equal", equal},
                                                  {"less", less},
                                                  {"greater", greater},
                                                  {"less_equal", less_equal},
                                                  {"greater_equal", greater_equal},
                                                  {"logical_and", logical_and},
                                                  {"logical_or", logical_or},
                                                  {"logical_xor", logical_xor}};
    for (const auto& [name, f] : binary) map[name] = [f = f](const Case& c) { return Values{f(c["a"], c["b"])}; };
    map["erfc"] = [](const Case& c) { return Values{2 * normal_cdf(c["x"] * -std::sqrt(2.0))}; };
    map["logsigmoid"] = [](const Case& c) { return Values{-softplus(-c["x"])}; };
    map["relu6"] = [](const Case& c) { return Values{relu6(c["x"])}; };
    map["leaky_relu"] = [](const Case& c) { return Values{leaky_relu(c["x"], c.number("alpha"))}; };
    map["elu"] = [](const Case& c) { return Values{elu(c["x"], c.number("alpha"))}; };
    map["celu"] = [](const Case& c) { return Values{celu(c["x"], c.number("alpha"))}; };
    map["hardsigmoid"] = [](const Case& c) { return Values{hard_sigmoid(c["x"], 1.0 / 6, 0.5)}; };
    map["softplus"] = [](const Case& c) {
      const double beta = c.number("beta");
      return Values{softplus(c["x"] * beta) / beta};
    };
    map["clamp"] = [](const Case& c) {
      return Values{clamp(c["x"], c.given("lo") ? c.number("lo") : -3e38, c.given("hi") ? c.number("hi") : 3e38)};
    };
    map["prelu"] = [](const Case& c) { return Values{prelu(c["x"], per_channel(c["weight"], c["x"].shape()))}; };
    map["mod"] = [](const Case& c) {
      return Values{c.attr("mode") == "floor" ? mod(c["a"], c["b"]) : fmod(c["a"], c["b"])};
    };
    map["not_equal"] = [](const Case& c) { return Values{logical_not(equal(c["a"], c["b"]))}; };
    map["logical_not"] = [](const Case& c) { return Values{logical_not(c["a"])}; };
    map["where"] = [](const Case& c) { return Values{where(c["cond"], c["a"], c["b"])}; };
    map["matmul"] = [](const Case& c) { return Values{product(c)}; };
    map["linear"] = [](const Case& c) {
      return Values{activated(c.attr("activation"), linear(c["x"], c["weight"], c["bias"]))};
    };
    map["conv"] = [](const Case& c) {
      return Values{conv(c["x"], c["weight"],
                         {c["bias"], c.ints("stride"), c.ints("dilation"), c.ints("pads"), c.integer("groups")})};
    };
    map["conv_transpose"] = [](const Case& c) {
      return Values{conv_transpose(c["x"], c["weight"],
                                   {c["bias"], c.ints("stride"), c.ints("dilation"), c.ints("pads"),
                                    c.ints("output_padding"), c.integer("groups")})};
    };
    map["max_pool"] = [](const Case& c) { return Values{max_pool(c["x"], c.windows())}; };
    map["avg_pool"] = [](const Case& c) { return Values{avg_pool(c["x"], c.windows(), c.flag("count_include_pad"))}; };
    map["adaptive_max_pool"] = [](const Case& c) { return Values{adaptive_max_pool(c["x"], c.ints("size"))}; };
    map["adaptive_avg_pool"] = [](const Case& c) { return Values{adaptive_avg_pool(c["x"], c.ints("size"))}; };
    const auto global = [](Value (*f)(Value, const Reduce&)) {
      return [f](const Case& c) {
        Ints axes;
        for (size_t a = 2; a < c["x"].shape().size(); ++a) axes.push_back(static_cast<int64_t>(a));
        return Values{f(c["x"], {axes, true})};
      };
    };
    map["global_avg_pool"] = global(reduce_mean);
    map["global_max_pool"] = global(reduce_max);
    map["layer_norm"] = [](const Case& c) {
      return Values{layer_norm(c["x"], c["weight"], c["bias"], c.ints("axes").front(), c.number("eps"))};
    };
    map["rms_norm"] = [](const Case& c) {
      return Values{rms_norm(c["x"], c["weight"], c.ints("axes").front(), c.number("eps"))};
    };
    map["residual_layer_norm"] = [](const Case& c) {
      const Value sum = c["x"] + c["residual"];
      return Values{sum, layer_norm(sum, c["weight"], c["bias"], -1, c.number("eps"))};
    };
    map["residual_rms_norm"] = [](const Case& c) {
      const Value sum = c["x"] + c["residual"];
      return Values{sum, rms_norm(sum, c["weight"], -1, c.number("eps"))};
    };
    map["group_norm"] = [](const Case& c) {
      return Values{group_norm(c["x"], c.integer("groups"), c["weight"], c["bias"], c.number("eps"))};
    };
    map["instance_norm"] = [](const Case& c) {
      return Values{instance_norm(c["x"], c["weight"], c["bias"], c.number("eps"))};
    };
    map["batch_norm"] = [](const Case& c) {
      if (c.flag("training")) {
        const BatchNormResult r = batch_norm_training(c["x"], c["running_mean"], c["running_var"], c["weight"],
                                                      c["bias"], c.number("momentum"), c.number("eps"));
        return Values{r.y, r.running_mean, r.running_variance, r.mean, r.variance};
      }
      return Values{batch_norm(c["x"], c["running_mean"], c["running_var"], c["weight"], c["bias"], c.number("eps"))};
    };
    map["attention"] = [](const Case& c) { return Values{attention(c["q"], c["k"], c["v"], attention_options(c))}; };
    map["rope"] = [](const Case& c) { return Values{rope(c["x"], rope_options(c))}; };
    map["softmax"] = [](const Case& c) { return Values{softmax(c["x"], c.integer("axis"))}; };
    map["log_softmax"] = [](const Case& c) { return Values{log_softmax(c["x"], c.integer("axis"))}; };
    map["logsumexp"] = [](const Case& c) { return Values{log_sum_exp(c["x"], c.over())}; };
    const std::map<std::string, Value (*)(Value, const Reduce&)> reductions = {
        {"reduce_sum", reduce_sum}, {"reduce_mean", reduce_mean}, {"reduce_max", reduce_max},
        {"reduce_min", reduce_min}, {"reduce_prod", reduce_prod}, {"reduce_l1", reduce_l1},
        {"reduce_l2", reduce_l2}};
    for (const auto& [name, f] : reductions) map[name] = [f = f](const Case& c) { return Values{f(c["x"], c.over())}; };
    map["reduce_var"] = [](const Case& c) { return Values{reduce_var(c["x"], c.over(), c.integer("correction"))}; };
    map["reduce_std"] = [](const Case& c) { return Values{reduce_std(c["x"], c.over(), c.integer("correction"))}; };
    map["embedding"] = [](const Case& c) {
      const auto padding = c.given("padding_idx") ? std::optional(c.integer("padding_idx")) : std::nullopt;
      return Values{embedding(c["weight"], c["indices"], padding)};
    };
    map["gather"] = [](const Case& c) { return Values{gather(c["x"], c["indices"], c.integer("axis"))}; };
    map["take_along"] = [](const Case& c) {
      const int64_t axis = c.integer("axis");
      return Values{gather_elements(c["x"], c["indices"], axis)};
    };
    const auto scatter = [](const char* reduction) {
      return [reduction](const Case& c) {
        return Values{scatter_elements(c["x"], c["indices"], c["src"], c.integer("axis"), reduction)};
      };
    };
    map["scatter"] = scatter("none");
    map["scatter_add"] = scatter("add");
    map["index_add"] = [](const Case& c) { return Values{index_rows(c)}; };
    map["one_hot"] = [](const Case& c) {
      return Values{one_hot(c["indices"], c.integer("classes"), c.integer("axis"))};
    };
    map["cumsum"] = [](const Case& c) {
      return Values{cumsum(c["x"], c.integer("axis"), c.flag("exclusive"), c.flag("reverse"))};
    };
    map["cumprod"] = [](const Case& c) {
      return Values{cumprod(c["x"], c.integer("axis"), c.flag("exclusive"), c.flag("reverse"))};
    };
    map["topk"] = [](const Case& c) {
      const TopK top = top_k(c["x"], c.integer("k"), c.integer("axis"), c.flag("largest"));
      return Values{top.values, top.positions};
    };
    map["sort"] = [](const Case& c) {
      const Sorted sorted = sort(c["x"], c.integer("axis"), c.flag("descending"));
      return Values{sorted.values, sorted.positions};
    };
    map["argmax"] = [](const Case& c) {
      return Values{argmax(c["x"], c.integer("axis"), c.flag("keepdims"), DType::I32)};
    };
    map["argmin"] = [](const Case& c) {
      return Values{argmin(c["x"], c.integer("axis"), c.flag("keepdims"), DType::I32)};
    };
    map["pad"] = [](const Case& c) { return Values{padding(c)}; };
    map["flip"] = [](const Case& c) { return Values{flip(c["x"], c.ints("axes"))}; };
    map["roll"] = [](const Case& c) { return Values{roll(c["x"], c.ints("shifts"), c.ints("axes"))}; };
    map["tile"] = [](const Case& c) { return Values{tile(c["x"], c.ints("repeats"))}; };
    map["expand"] = [](const Case& c) { return Values{expand(c["x"], c.ints("shape"))}; };
    map["transpose"] = [](const Case& c) { return Values{transpose(c["x"], c.ints("perm"))}; };
    map["slice"] = [](const Case& c) { return Values{sliced(c)}; };
    const auto parts = [](const Case& c) {
      Values found;
      for (int i = 0; c.has("x" + std::to_string(i)); ++i) found.push_back(c["x" + std::to_string(i)]);
      return found;
    };
    map["concat"] = [parts](const Case& c) { return Values{concat(parts(c), c.integer("axis"))}; };
    map["stack"] = [parts](const Case& c) { return Values{stack(parts(c), c.integer("axis"))}; };
    map["split"] = [](const Case& c) { return split(c["x"], c.ints("sizes"), c.integer("axis")); };
    map["im2col"] = [](const Case& c) { return Values{im2col(c["x"], c.windows())}; };
    map["fold"] = [](const Case& c) { return Values{fold(c["x"], c.ints("size"), c.windows())}; };
    map["pixel_shuffle"] = [](const Case& c) { return Values{pixel_shuffle(c["x"], c.integer("factor"))}; };
    map["pixel_unshuffle"] = [](const Case& c) { return Values{pixel_unshuffle(c["x"], c.integer("factor"))}; };
    map["interpolate"] = [](const Case& c) { return Values{interpolate(c["x"], c.ints("size"), interpolation(c))}; };
    map["lstm"] = [](const Case& c) {
      const RecurrentResult r = recurrent(c);
      return Values{r.y, r.hn, r.cn};
    };
    map["gru"] = [](const Case& c) {
      const RecurrentResult r = recurrent(c);
      return Values{r.y, r.hn};
    };
    map["fft"] = [](const Case& c) { return Values{fft(c["x"], transform(c))}; };
    map["ifft"] = [](const Case& c) { return Values{ifft(c["x"], transform(c))}; };
    map["rfft"] = [](const Case& c) { return Values{rfft(c["x"], transform(c))}; };
    map["irfft"] = [](const Case& c) { return Values{irfft(c["x"], transform(c))}; };
    map["stft"] = [](const Case& c) { return Values{stft(c["x"], short_transforms(c))}; };
    map["stft_power"] = [](const Case& c) { return Values{stft_power(c["x"], short_transforms(c))}; };
    map["mel_filterbank"] = [](const Case& c) { return Values{c.graph.constant(filters(c))}; };
    map["log_mel"] = [](const Case& c) { return Values{log_mel(c["x"], c["filters"], log_mels(c))}; };
    map["cross_entropy"] = [](const Case& c) { return Values{cross_entropy(c["x"], c["target"], class_options(c))}; };
    map["nll"] = [](const Case& c) { return Values{nll(c["x"], c["target"], class_options(c))}; };
    map["bce_with_logits"] = [](const Case& c) {
      return Values{bce_with_logits(c["x"], c["target"], {c["weight"], c["pos_weight"], over_of(c)})};
    };
    map["mse"] = [](const Case& c) { return Values{mse(c["x"], c["target"], over_of(c))}; };
    map["l1"] = [](const Case& c) { return Values{l1(c["x"], c["target"], over_of(c))}; };
    map["huber"] = [](const Case& c) { return Values{huber(c["x"], c["target"], c.number("delta"), over_of(c))}; };
    map["smooth_l1"] = [](const Case& c) {
      return Values{smooth_l1(c["x"], c["target"], c.number("beta"), over_of(c))};
    };
    map["kl_div"] = [](const Case& c) { return Values{kl_div(c["x"], c["target"], c.flag("log_target"), over_of(c))}; };
    map["dice"] = [](const Case& c) {
      return Values{dice(c["x"], c["target"],
                         {c.attr("activation") == "sigmoid", c.flag("batch"), c.flag("squared"),
                          c.flag("include_background"), c.number("smooth")})};
    };
    map["focal"] = [](const Case& c) {
      FocalOptions options{c.number("gamma"), c["weight"], {}, over_of(c)};
      if (c.given("alpha")) options.alpha = c.number("alpha");
      return Values{c.attr("kind") == "sigmoid" ? focal_sigmoid(c["x"], c["target"], options)
                                                : focal(c["x"], c["target"], options)};
    };
    map["lora_linear"] = [](const Case& c) {
      return Values{linear(c["x"], c["weight"]) + linear(linear(c["x"], c["a"]), c["b"]) * c.number("scale")};
    };
    map["swiglu"] = [](const Case& c) { return Values{silu(linear(c["x"], c["gate"])) * linear(c["x"], c["up"])}; };
    map["grouped_matmul"] = [](const Case& c) {
      const Value groups = group_rows(c["expert"], c["weight"].shape()[0]);
      return Values{grouped_matmul(c["x"], c["weight"], groups)};
    };
    map["selective_scan"] = [](const Case& c) {
      const CarriedResult r = selective_scan(c["x"], c["delta"], c["A"], c["B"], c["C"], selective_options(c));
      return Values{r.y, r.last};
    };
    map["gated_delta_rule"] = [](const Case& c) {
      const CarriedResult r = gated_delta_rule(c["q"], c["k"], c["v"], c["g"], c["beta"], delta_options(c));
      return Values{r.y, r.last};
    };
    return map;
  }();
  return all;
}

GoldenFile::GoldenFile() {
  const std::filesystem::path folder = test_data();
  if (folder.empty()) return;
  cases_ = Json::parse(std::ifstream(folder / "goldens/cases.json"))["cases"];
  bytes_ = read_bytes(folder / "goldens/tensors.safetensors");
  tensors_ = read_safetensors(std::as_bytes(std::span(bytes_)), "goldens");
}

std::optional<GoldenGradients> golden_gradients(const GoldenFile& file, const Json& json) {
  const auto build = builds().find(json["op"]);
  if (build == builds().end() || json["grads"].empty()) return std::nullopt;
  Case c(json, file.tensors());
  const Values made = build->second(c);
  if (made.empty()) return std::nullopt;
  GoldenGradients gradients{{}, c.inputs, {}};
  for (size_t i = 0; i < made.size(); ++i) {
    c.graph.output("y" + std::to_string(i), made[i]);
    if (i >= json["upstream"].size() || json["upstream"][i].is_null()) continue;
    const std::string name = "upstream_" + std::to_string(i);
    gradients.inputs[name] = file.tensor(json["upstream"][i]);
    c.graph.input(name, gradients.inputs[name].dtype, gradients.inputs[name].shape);
  }
  Graph graph = differentiable(c.graph);
  const auto input = [&](const std::string& name) {
    for (const Port& port : graph.inputs())
      if (port.name == name) return port.value;
    return kNoValue;
  };
  std::vector<Seed> seeds;
  for (size_t i = 0; i < made.size(); ++i)
    if (const ValueId upstream = input("upstream_" + std::to_string(i)); upstream != kNoValue)
      seeds.push_back({graph.outputs()[i].value, upstream});
  std::vector<ValueId> of;
  std::vector<std::string> roles;
  for (const auto& [role, tensor] : json["grads"].items()) {
    of.push_back(input(role));
    roles.push_back("grad_" + role);
    gradients.wanted["grad_" + role] = tensor;
  }
  const std::vector<ValueId> found = add_gradients(graph, seeds, of);
  for (size_t i = 0; i < of.size(); ++i)
    graph.add_output(roles[i], found[i] != kNoValue ? found[i] : zeros({graph, of[i]}, graph.type(of[i]).shape).id());
  gradients.graph = without_dead_nodes(graph);
  return gradients;
}

double error_of(const std::vector<double>& found, const Tensor& wanted) {
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < wanted.size(); ++i) {
    const double want = get(wanted, i), got = found[static_cast<size_t>(i)];
    if (std::isnan(want) && std::isnan(got)) continue;
    if (want == got) {
      if (std::isfinite(want)) largest = std::max(largest, std::abs(want));
      continue;
    }
    if (!std::isfinite(got) || !std::isfinite(want)) return HUGE_VAL;
    largest = std::max(largest, std::abs(want));
    worst = std::max(worst, std::abs(got - want));
  }
  return worst == 0 ? 0 : worst / std::max(largest, 1e-30);
}

std::vector<double> numbers_of(const Tensor& tensor) {
  std::vector<double> all;
  for (int64_t i = 0; i < tensor.size(); ++i) all.push_back(get(tensor, i));
  return all;
}

}  // namespace gyrus::test
