#include "import/hugging_face.h"

#include <algorithm>
#include <cmath>
#include <numbers>

// Queries and keys keep the order of their rows: in these files halves of a head turn together, in GGUF files of llama
// neighbours do, which the key "gyrus.rope.halves" tells.

namespace gyrus {
namespace {

constexpr int64_t kLongestHead = 1 << 16, kMostLayers = 4096;

struct Architecture {
  const char* theirs;
  const char* ours;
};
constexpr Architecture kArchitectures[] = {{"LlamaForCausalLM", "llama"}, {"MistralForCausalLM", "llama"},
                                           {"Qwen2ForCausalLM", "qwen2"}, {"MixtralForCausalLM", "llama"},
                                           {"Qwen3ForCausalLM", "qwen3"}, {"Qwen3MoeForCausalLM", "qwen3moe"}};

const char* architecture_of(const JsonObject& config) {
  const Json* const names = config.find("architectures");
  const bool one = names && names->is_array() && names->size() == 1 && (*names)[0].is_string();
  const std::string name = one ? (*names)[0].get<std::string>() : "";
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (name == a.theirs) return a.ours;
    known += (known.empty() ? "" : ", ") + std::string(a.theirs);
  }
  fail(ErrorCode::Unsupported, config.subject(), "config.json names the architecture ", in_quotes(name), "; gyrus has ",
       known, " in this form, and more as GGUF files");
}

class ShapeReader {
 public:
  ShapeReader(const HuggingFaceFiles& files, std::vector<float>& factors)
      : config_(files.config, files.subject, "config.json"), factors_(factors) {}

  Metadata read() {
    architecture_ = architecture_of(config_);
    out_["general.architecture"] = architecture_;
    out_["gyrus.rope.halves"] = true;
    integer("num_hidden_layers", "block_count");
    integer("hidden_size", "embedding_length");
    integer("max_position_embeddings", "context_length");
    integer("intermediate_size", "feed_forward_length");
    integer("num_attention_heads", "attention.head_count");
    const int64_t heads = config_.integer("num_attention_heads");
    put("attention.head_count_kv", config_.integer("num_key_value_heads", heads));
    put("attention.layer_norm_rms_epsilon", config_.number("rms_norm_eps", 1e-6));
    if (heads < 1) config_.bad("num_attention_heads", "a positive number");
    depth_ = config_.integer("head_dim", config_.integer("hidden_size") / heads);
    if (depth_ < 1 || depth_ > kLongestHead) config_.bad("head_dim", cat("1 to ", kLongestHead));
    put("attention.key_length", depth_);
    put("attention.value_length", depth_);
    read_rope();
    read_window();
    if (architecture_ == "qwen3moe") read_qwen_experts();
    if (config_.has("num_local_experts")) read_mixtral_experts();
    refuse_others();
    return std::move(out_);
  }

 private:
  template <class... Args>
  [[noreturn]] void unsupported(const Args&... message) const {
    fail(ErrorCode::Unsupported, config_.subject(), "config.json: ", message...);
  }
  template <class T>
  void put(const std::string& key, T value) {
    out_[architecture_ + "." + key] = value;
  }
  void integer(const char* theirs, const char* ours) { put(ours, config_.integer(theirs)); }

  // Newer files have "rope_parameters" for both "rope_theta" and "rope_scaling".
  void read_rope() {
    const char* const key = config_.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
    const Json none = Json::object();
    const JsonObject rope = config_.has(key) ? config_.object(key) : JsonObject(none, config_.subject(), key);
    base_ = rope.number("rope_theta", config_.number("rope_theta", 10000));
    put("rope.freq_base", base_);
    const double part = rope.number("partial_rotary_factor", config_.number("partial_rotary_factor", 1));
    if (!(part > 0 && part <= 1)) unsupported("a 'partial_rotary_factor' of ", part);
    turning_ = static_cast<int64_t>(static_cast<double>(depth_) * part);
    put("rope.dimension_count", turning_);
    const std::string type = rope.text("rope_type", rope.text("type", "default"));
    if (type == "default") return;
    if (type == "llama3") return read_llama3(rope);
    if (type != "linear" && type != "yarn") unsupported("stretches positions by ", in_quotes(type));
    put("rope.scaling.type", type);
    put("rope.scaling.factor", rope.number("factor", 1));
    if (type == "linear") return;
    for (const char* const unknown : {"mscale", "mscale_all_dim"}) {
      if (rope.has(unknown)) unsupported(in_quotes(unknown), " of yarn is not supported");
    }
    if (!rope.boolean("truncate", true)) unsupported("'truncate' of yarn must be true");
    put("rope.scaling.original_context_length",
        rope.integer("original_max_position_embeddings", config_.integer("max_position_embeddings")));
    put("rope.scaling.yarn_beta_fast", rope.number("beta_fast", 32));
    put("rope.scaling.yarn_beta_slow", rope.number("beta_slow", 1));
    // Theirs is the whole factor, GGUF's comes on top of the usual one.
    const double usual = 1 + 0.1 * std::log(rope.number("factor", 1));
    put("rope.scaling.attn_factor", rope.number("attention_factor", usual) / usual);
  }

  // Slow pairs turn more slowly by `factor`, fast ones as ever, those between by a blend.
  void read_llama3(const JsonObject& rope) {
    const double factor = rope.number("factor", 8), low = rope.number("low_freq_factor", 1),
                 high = rope.number("high_freq_factor", 4);
    const auto context = static_cast<double>(rope.integer("original_max_position_embeddings"));
    if (!(factor > 0 && low > 0 && high > low && context > 0)) unsupported("the numbers of 'llama3' make no sense");
    for (int64_t i = 0; i < turning_ / 2; ++i) {
      const double wave =
          2 * std::numbers::pi * std::pow(base_, 2 * static_cast<double>(i) / static_cast<double>(turning_));
      const double along = std::clamp((context / wave - low) / (high - low), 0.0, 1.0);
      factors_.push_back(static_cast<float>(1 / ((1 - along) / factor + along)));
    }
  }

  void read_window() {
    if (architecture_ != "llama") {
      if (config_.boolean("use_sliding_window", false)) unsupported("'use_sliding_window' is not supported");
    } else if (config_.has("sliding_window")) {
      put("attention.sliding_window", config_.integer("sliding_window"));
    }
  }

  // Layers with experts, as "decoder_sparse_step" and "mlp_only_layers" say; the others have one network.
  void read_qwen_experts() {
    const int64_t experts = config_.integer("num_experts"), step = config_.integer("decoder_sparse_step", 1);
    put("expert_count", experts);
    put("expert_used_count", config_.integer("num_experts_per_tok"));
    put("expert_feed_forward_length", config_.integer("moe_intermediate_size"));
    put("expert_weights_norm", config_.boolean("norm_topk_prob", false));
    if (step < 1) config_.bad("decoder_sparse_step", "a positive number");
    const int64_t layers = config_.integer("num_hidden_layers");
    if (layers < 1 || layers > kMostLayers) config_.bad("num_hidden_layers", cat("1 to ", kMostLayers));
    std::vector<bool> routed(static_cast<size_t>(layers));
    for (int64_t i = 0; i < layers; ++i) routed[static_cast<size_t>(i)] = experts > 0 && (i + 1) % step == 0;
    const Json* const dense = config_.has("mlp_only_layers") ? config_.find("mlp_only_layers") : nullptr;
    if (dense && !dense->is_array()) config_.bad("mlp_only_layers", "a list");
    for (size_t i = 0; dense && i < dense->size(); ++i) {
      const Json& layer = (*dense)[i];
      if (!layer.is_number_unsigned() || layer.get<uint64_t>() >= routed.size())
        config_.bad("mlp_only_layers", cat("a list of numbers of layers below ", layers));
      routed[layer.get<size_t>()] = false;
    }
    out_["gyrus.experts.layers"] = routed;
  }

  void read_mixtral_experts() {
    put("expert_count", config_.integer("num_local_experts"));
    put("expert_used_count", config_.integer("num_experts_per_tok"));
  }

  void refuse_others() const {
    if (config_.has("quantization_config")) {
      const JsonObject quantized = config_.object("quantization_config");
      unsupported("weights quantised by ", in_quotes(quantized.text("quant_method", "")),
                  " are not read; convert the model to GGUF");
    }
    const std::string act = config_.text("hidden_act", "silu");
    if (act != "silu") unsupported("the activation ", in_quotes(act), " is not supported");
    if (config_.number("pretraining_tp", 1) > 1) unsupported("'pretraining_tp' above 1 is not supported");
  }

  JsonObject config_;
  std::vector<float>& factors_;
  std::string architecture_;
  Metadata out_;
  int64_t depth_ = 0, turning_ = 0;
  double base_ = 0;
};

}  // namespace

Metadata hugging_face_shape(const HuggingFaceFiles& files, std::vector<float>& factors) {
  return ShapeReader(files, factors).read();
}

namespace {

// "mlp.experts.3.up_proj.weight" as "ffn_up.3.weight", as old GGUF files have it; empty where it is something else.
std::string expert_tensor(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {"gate_proj.weight", "ffn_gate."}, {"up_proj.weight", "ffn_up."}, {"down_proj.weight", "ffn_down."},
      {"w1.weight", "ffn_gate."},        {"w3.weight", "ffn_up."},      {"w2.weight", "ffn_down."}};
  for (const std::string_view front : {"mlp.experts.", "block_sparse_moe.experts."}) {
    if (name.substr(0, front.size()) != front) continue;
    const size_t dot = name.find('.', front.size());
    if (dot == std::string_view::npos) return {};
    for (const auto& [theirs, ours] : kParts)
      if (name.substr(dot + 1) == theirs) return cat(ours, name.substr(front.size(), dot - front.size()), ".weight");
  }
  return {};
}

}  // namespace

std::string hugging_face_tensor(const std::string& name, const std::string& subject) {
  constexpr std::pair<std::string_view, std::string_view> kWhole[] = {
      {"model.embed_tokens.", "token_embd."}, {"model.norm.", "output_norm."}, {"lm_head.", "output."}};
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {{"input_layernorm.", "attn_norm."},
                                                                      {"self_attn.q_proj.", "attn_q."},
                                                                      {"self_attn.k_proj.", "attn_k."},
                                                                      {"self_attn.v_proj.", "attn_v."},
                                                                      {"self_attn.o_proj.", "attn_output."},
                                                                      {"self_attn.q_norm.", "attn_q_norm."},
                                                                      {"self_attn.k_norm.", "attn_k_norm."},
                                                                      {"post_attention_layernorm.", "ffn_norm."},
                                                                      {"mlp.gate_proj.", "ffn_gate."},
                                                                      {"mlp.up_proj.", "ffn_up."},
                                                                      {"mlp.down_proj.", "ffn_down."},
                                                                      {"mlp.gate.", "ffn_gate_inp."},
                                                                      {"block_sparse_moe.gate.", "ffn_gate_inp."}};
  constexpr std::string_view kLayers = "model.layers.";
  if (name.ends_with(".rotary_emb.inv_freq")) return {};  // what older files have; it follows from config.json
  const std::string_view all(name);
  for (const auto& [theirs, ours] : kWhole) {
    if (all.substr(0, theirs.size()) == theirs) return std::string(ours) + name.substr(theirs.size());
  }
  const size_t dot = all.find('.', kLayers.size());
  if (all.substr(0, kLayers.size()) == kLayers && dot != std::string_view::npos) {
    const std::string_view number = all.substr(kLayers.size(), dot - kLayers.size()), rest = all.substr(dot + 1);
    for (const auto& [theirs, ours] : kParts) {
      if (rest.substr(0, theirs.size()) == theirs) return cat("blk.", number, ".", ours, rest.substr(theirs.size()));
    }
    if (const std::string expert = expert_tensor(rest); !expert.empty()) return cat("blk.", number, ".", expert);
  }
  fail(ErrorCode::Unsupported, subject, "has the tensor ", in_quotes(name), ", which gyrus does not know");
}

}  // namespace gyrus
