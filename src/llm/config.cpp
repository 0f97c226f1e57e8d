#include "llm/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace gyrus::llm {
namespace {

using Reader = void (*)(const Gguf& file, Config& config);

// A window for all layers, where the file has one that is shorter than the context.
void read_window(const Gguf& file, Config& c) {
  c.window = file.integer(file.key("attention.sliding_window"), 0);
  if (c.window >= c.context) c.window = 0;
}

void read_llama(const Gguf& file, Config& c) {
  c.halves = file.boolean("gyrus.rope.halves", false);  // of files that transformers wrote
  read_window(file, c);
}

void read_qwen(const Gguf& file, Config& c) {
  c.halves = true;
  read_window(file, c);
}

void read_gemma(Config& c) {
  c.halves = true;
  c.act = "gelu_tanh";
  c.embedding_scale = std::sqrt(static_cast<double>(c.width));
  c.post_norms = true;
}

// The scale of the largest of the family, which its converters leave to readers: by its number of layers.
void scale_by_width(Config& c, int64_t layers) {
  if (c.layers == layers)
    c.attention_scale = 1 / std::sqrt(static_cast<double>(c.width) / static_cast<double>(c.heads));
}

void read_gemma2(const Gguf& file, Config& c) {
  read_gemma(c);
  c.attention_cap = file.number(file.key("attn_logit_softcapping"), 50);
  c.final_cap = file.number(file.key("final_logit_softcapping"), 30);
  c.window = file.integer(file.key("attention.sliding_window"), 4096);
  c.window_period = 2;
  scale_by_width(c, 46);
}

void read_gemma3(const Gguf& file, Config& c) {
  read_gemma(c);
  c.window = file.integer(file.key("attention.sliding_window"), 0);
  c.window_period = file.integer(file.key("attention.sliding_window_pattern"), 6);
  c.local_base = file.number(file.key("rope.freq_base_swa"), 10000);
  if (!file.has(file.key("rope.freq_base"))) c.rope_base = 1e6;
  scale_by_width(c, 62);
}

void read_phi3(const Gguf& file, Config& c) {
  c.halves = true;
  read_window(file, c);
}

void read_gpt2(const Gguf&, Config& c) {
  c.layer_norm = true;
  c.positions = true;
  c.turning = 0;
  c.act = "gelu_tanh";
  c.gated = false;
}

struct Architecture {
  const char* name;
  Reader read;
};
constexpr Architecture kArchitectures[] = {
    {"llama", read_llama},   {"qwen2", read_qwen},    {"qwen3", read_qwen}, {"qwen3moe", read_qwen},
    {"gemma2", read_gemma2}, {"gemma3", read_gemma3}, {"phi3", read_phi3},  {"gpt2", read_gpt2},
};

Reader reader_of(const Gguf& file) {
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (file.architecture() == a.name) return a.read;
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  fail(ErrorCode::Unsupported, file.subject(), "holds a model of the architecture \"", file.architecture(),
       "\"; gyrus has ", known);
}

// One number for all layers.
int64_t of_all_layers(const Gguf& file, const std::string& name, int64_t layers) {
  const std::vector<int64_t> each = file.integers(file.key(name), static_cast<size_t>(layers));
  if (std::any_of(each.begin(), each.end(), [&](int64_t n) { return n != each.front(); }))
    fail(ErrorCode::Unsupported, file.subject(), file.key(name), " differs between layers");
  return each.empty() ? 0 : each.front();
}

RopeScaling read_scaling(const Gguf& file, const Config& config) {
  RopeScaling s;
  s.type = file.text(file.key("rope.scaling.type"), "none");
  s.factor = file.number(file.key("rope.scaling.factor"), file.number(file.key("rope.scale_linear"), 1));
  if (s.type == "none" && !file.has(file.key("rope.scaling.type")) && s.factor != 1) s.type = "linear";
  s.original_context =
      file.number(file.key("rope.scaling.original_context_length"), static_cast<double>(config.context));
  s.attention_factor =
      file.number(file.key("rope.scaling.attn_factor"), 1) * file.number(file.key("rope.scaling.yarn_attn_factor"), 1);
  s.fast = file.number(file.key("rope.scaling.yarn_beta_fast"), 32);
  s.slow = file.number(file.key("rope.scaling.yarn_beta_slow"), 1);
  if (s.type != "none" && s.type != "linear" && s.type != "yarn" && s.type != "longrope")
    fail(ErrorCode::Unsupported, file.subject(), "stretches its positions by \"", s.type,
         "\"; gyrus has linear, yarn and longrope");
  if (!(s.factor > 0)) fail(ErrorCode::InvalidModel, file.subject(), "rope.scaling.factor is ", s.factor);
  return s;
}

Pooling read_pooling(const Gguf& file) {
  switch (file.integer(file.key("pooling_type"), 0)) {
    case 0:
    case 1: return Pooling::Mean;
    case 2: return Pooling::First;
    case 3: return Pooling::Last;
    default: fail(ErrorCode::Unsupported, file.subject(), "has a pooling_type that gyrus does not know");
  }
}

constexpr int64_t kMostExperts = 1 << 16, kMostElements = 1 << 24;

void read_experts(const Gguf& file, Config& c) {
  c.experts = file.integer(file.key("expert_count"), 0);
  if (c.experts == 0) return;
  c.experts_used = file.integer(file.key("expert_used_count"));
  c.experts_normed = file.boolean(file.key("expert_weights_norm"), true);
  c.expert_hidden = file.integer(file.key("expert_feed_forward_length"), c.hidden);
  if (c.experts < 0 || c.experts > kMostExperts || c.expert_hidden < 1 || c.expert_hidden > kMostElements)
    fail(ErrorCode::InvalidModel, file.subject(), "has ", c.experts, " experts of ", c.expert_hidden, " elements");
  if (const auto given = file.metadata().find("gyrus.experts.layers"); given != file.metadata().end())
    if (const auto* const layers = std::get_if<std::vector<bool>>(&given->second)) c.routed = *layers;
  if (c.experts_used < 1 || c.experts_used > c.experts)
    fail(ErrorCode::InvalidModel, file.subject(), "uses ", c.experts_used, " of ", c.experts, " experts");
}

// What would change the results, but is not done, is refused rather than ignored: keys, and the value that changes
// nothing besides 0.
void refuse_unknown(const Gguf& file) {
  constexpr std::pair<const char*, double> kNeutral[] = {{"attention.causal", 1},
                                                         {"attention.clamp_kqv", 0},
                                                         {"attention.max_alibi_bias", 0},
                                                         {"logit_scale", 1},
                                                         {"residual_scale", 1},
                                                         {"embedding_scale", 1},
                                                         {"use_parallel_residual", 0},
                                                         {"expert_shared_count", 0},
                                                         {"expert_group_count", 1},
                                                         {"expert_gating_func", 1},
                                                         {"expert_weights_scale", 1},
                                                         {"rope.scaling.yarn_log_multiplier", 0},
                                                         {"rope.scaling.yarn_ext_factor", 1}};
  for (const auto& [name, neutral] : kNeutral) {
    const std::string key = file.key(name);
    if (!file.has(key)) continue;
    const auto* const flag = std::get_if<bool>(&file.metadata().at(key));
    const double value = flag ? *flag : file.number(key);
    const bool same = value == neutral || (value == 0 && !flag);
    if (!same)
      fail(ErrorCode::Unsupported, file.subject(), "metadata '", key, "' is ", value, ", which gyrus does not do");
  }
  const std::string sections = file.key("rope.dimension_sections");
  if (file.has(sections)) fail(ErrorCode::Unsupported, file.subject(), "metadata '", sections, "' is not supported");
}

void check(const Gguf& file, const Config& c) {
  const auto require = [&](bool good, const char* what) {
    if (!good) fail(ErrorCode::InvalidModel, file.subject(), what);
  };
  for (int64_t n : {c.layers, c.width, c.heads, c.kv_heads, c.depth, c.hidden, c.vocabulary, c.context})
    require(n > 0 && n <= kMostElements, "a number of layers, heads or elements in its metadata is not from 1 to 2^24");
  require(c.heads % c.kv_heads == 0, "its heads of queries are not a multiple of its heads of keys");
  require(c.turning % 2 == 0 && c.turning <= c.depth, "its rope.dimension_count is odd or more than a head has");
  require(std::isfinite(c.attention_scale) && c.attention_scale > 0, "its attention.scale is not above 0");
  require(std::isfinite(c.scaling.attention_factor), "a factor of its attention is no number");
  require(c.attention_cap >= 0 && c.final_cap >= 0, "a soft cap of its logits is negative");
  require(c.eps > 0 && c.eps < 1, "the epsilon of its norms is not between 0 and 1");
  require(c.rope_base > 1, "its rope.freq_base is not above 1");
  require(c.window >= 0 && c.window_period >= 1, "its sliding window is negative");
  if (c.depth % 4 != 0)
    fail(ErrorCode::Unsupported, file.subject(), "has heads of ", c.depth, " elements, expected a multiple of 4");
}

double yarn_place(const Config& c, double turns) {
  const auto n = static_cast<double>(c.turning);
  return n * std::log(c.scaling.original_context / (turns * 2 * std::numbers::pi)) / (2 * std::log(c.rope_base));
}

}  // namespace

const char* pooling_name(Pooling pooling) {
  return pooling == Pooling::First ? "first" : pooling == Pooling::Last ? "last" : "mean";
}

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const Architecture& a : kArchitectures) names.emplace_back(a.name);
  return names;
}

bool Config::is_local(int64_t layer) const {
  if (window == 0) return false;
  return window_period == 1 || layer % window_period != window_period - 1;
}

Config read_config(const Gguf& file) {
  const Reader read = reader_of(file);
  Config c;
  c.architecture = file.architecture();
  c.name = file.text("general.name", "");
  c.layers = file.integer(file.key("block_count"));
  if (c.layers < 1 || c.layers > 4096) fail(ErrorCode::InvalidModel, file.subject(), "has ", c.layers, " layers");
  c.width = file.integer(file.key("embedding_length"));
  c.context = file.integer(file.key("context_length"));
  c.hidden = of_all_layers(file, "feed_forward_length", c.layers);
  c.heads = of_all_layers(file, "attention.head_count", c.layers);
  c.kv_heads = file.has(file.key("attention.head_count_kv")) ? of_all_layers(file, "attention.head_count_kv", c.layers)
                                                             : c.heads;
  if (c.heads < 1 || c.kv_heads < 1) fail(ErrorCode::InvalidModel, file.subject(), "has no heads");
  c.depth = file.integer(file.key("attention.key_length"), c.width / c.heads);
  if (file.integer(file.key("attention.value_length"), c.depth) != c.depth)
    fail(ErrorCode::Unsupported, file.subject(), "has values of another length than its keys");
  const GgufTensor& embedding = file.tensor("token_embd.weight");
  if (embedding.shape.size() != 2 || embedding.shape[1] != c.width)
    fail(ErrorCode::InvalidModel, file.subject(), "token_embd.weight is ", to_string(embedding.shape),
         ", expected [vocabulary, ", c.width, "]");
  c.vocabulary = embedding.shape[0];
  const std::string eps = file.key("attention.layer_norm_rms_epsilon");
  c.eps = file.has(eps) ? file.number(eps) : file.number(file.key("attention.layer_norm_epsilon"), 1e-5);
  c.turning = file.integer(file.key("rope.dimension_count"), c.depth);
  c.rope_base = file.number(file.key("rope.freq_base"), 10000);
  c.attention_scale = 1 / std::sqrt(static_cast<double>(c.depth));
  c.attention_cap = file.number(file.key("attn_logit_softcapping"), 0);
  c.final_cap = file.number(file.key("final_logit_softcapping"), 0);
  read_experts(file, c);
  read(file, c);
  c.attention_scale = file.number(file.key("attention.scale"), c.attention_scale);
  c.pooling = read_pooling(file);
  refuse_unknown(file);
  c.scaling = read_scaling(file, c);
  check(file, c);
  return c;
}

std::vector<double> rope_speeds(const Config& c, bool local, const std::vector<float>& factors) {
  const int64_t half = c.turning / 2;
  const bool scaled = !(local && c.local_base > 0);
  const double base = scaled ? c.rope_base : c.local_base;
  std::vector<double> speeds;
  for (int64_t i = 0; i < half; ++i) {
    double speed = std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
    if (!factors.empty()) speed /= factors[static_cast<size_t>(i)];
    const double stretched = speed / c.scaling.factor;
    if (scaled && c.scaling.type == "linear") speed = stretched;
    if (scaled && c.scaling.type == "yarn") {
      const double begin = std::max(0.0, std::floor(yarn_place(c, c.scaling.fast)));
      const double end = std::min(static_cast<double>(c.turning - 1), std::ceil(yarn_place(c, c.scaling.slow)));
      const double along = (static_cast<double>(i) - begin) / std::max(0.001, end - begin);
      const double own = 1 - std::clamp(along, 0.0, 1.0);  // fast pairs keep their speed
      speed = stretched * (1 - own) + speed * own;
    }
    speeds.push_back(speed);
  }
  return speeds;
}

}  // namespace gyrus::llm
