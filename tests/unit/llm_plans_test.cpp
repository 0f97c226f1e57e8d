// Plans of language models in real shapes keep the limits that every device has; what metadata mean.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/limits.h"
#include "import/hugging_face.h"
#include "llm/runner.h"
#include "plan/check.h"

namespace gyrus::test {
namespace {

constexpr int64_t kChosen = 4;  // bytes of the last token

struct Sized {
  const char* name;
  int64_t layers, width, heads, kv_heads, hidden, vocabulary;
  bool biased;
  BlockType type;
  uint64_t least, most;  // bytes of weights, about
};

// The tensors that a file of this shape has, without their bytes.
std::shared_ptr<const llm::Model> model_of(const Sized& s, const TextOptions& options) {
  llm::Config c;
  c.architecture = "llama";
  c.layers = s.layers;
  c.width = s.width;
  c.heads = s.heads;
  c.kv_heads = s.kv_heads;
  c.depth = c.turning = s.width / s.heads;
  c.hidden = s.hidden;
  c.vocabulary = s.vocabulary;
  c.context = 8192;
  c.attention_scale = 1 / std::sqrt(static_cast<double>(c.depth));
  const auto sources = [s, c](const std::string& name) -> std::optional<llm::Source> {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    const int64_t keys = c.kv_heads * c.depth;
    const int64_t rows = has("token_embd")                    ? c.vocabulary
                         : has("attn_k.") || has("attn_v.")   ? keys
                         : has("ffn_gate.") || has("ffn_up.") ? c.hidden
                                                              : c.width;
    if (has("qkv") || has("q_norm") || has("k_norm") || has("rope") || name == "output.weight") return std::nullopt;
    if (has(".bias")) {
      if (!s.biased || !(has("attn_q") || has("attn_k") || has("attn_v"))) return std::nullopt;
      return llm::Source{BlockType::F32, {rows}, {}};
    }
    if (has("norm")) return llm::Source{BlockType::F32, {c.width}, {}};
    const int64_t columns = has("ffn_down") ? c.hidden : c.width;
    // Rows that are no whole blocks are kept in another format, as quantisers do.
    const bool whole = columns % block_format(s.type).elements == 0;
    return llm::Source{whole ? s.type : BlockType::Q8_0, {rows, columns}, {}};
  };
  return std::make_shared<llm::Model>(c, sources, llm::with_context(options, c, s.name), s.name);
}

TEST(LanguagePlans, RealShapesKeepDefaultLimits) {
  const Sized sizes[] = {
      {"Llama-3.2-1B", 16, 2048, 32, 8, 8192, 128256, false, BlockType::Q4_K, 650'000'000, 750'000'000},
      {"Llama-3.2-1B in Q8_0", 16, 2048, 32, 8, 8192, 128256, false, BlockType::Q8_0, 1'250'000'000, 1'350'000'000},
      {"Qwen2.5-0.5B", 24, 896, 14, 2, 4864, 151936, true, BlockType::Q4_0, 250'000'000, 300'000'000},
      {"SmolLM2-135M", 30, 576, 9, 3, 1536, 49152, false, BlockType::Q8_0, 130'000'000, 150'000'000}};
  for (const Sized& s : sizes) {
    SCOPED_TRACE(s.name);
    const auto model = model_of(s, {});
    const Target target(default_limits());
    bool cut = false;
    for (const int64_t rows : llm::step_sizes(model->options())) {
      const Plan plan = llm::step_plan(*model, rows, llm::StepKind::Last, target);
      EXPECT_NO_THROW(check(plan, default_limits()));
      EXPECT_FALSE(plan.features.shader_f16 || plan.features.subgroups);
      int64_t products = 0;  // of the output's matrix
      for (const Step& step : plan.steps) {
        EXPECT_FALSE(std::holds_alternative<Copy>(step));
        const auto* dispatch = std::get_if<Dispatch>(&step);
        if (dispatch && dispatch->label == "output")
          products += plan.kernels[dispatch->kernel].name.compare(0, 6, "block_") == 0;
      }
      cut = cut || products > 1;
    }
    const uint64_t output = block_bytes(s.type, static_cast<uint64_t>(s.vocabulary * s.width));
    EXPECT_EQ(cut, output > default_limits().max_storage_buffer_binding_size);
    const TextMemory memory = llm::planned_memory(*model, target);
    EXPECT_EQ(memory.weights, model->weight_bytes());
    EXPECT_GT(memory.weights, s.least);
    EXPECT_LT(memory.weights, s.most);
    const llm::Config& c = model->config();
    EXPECT_EQ(memory.cache,
              static_cast<uint64_t>(c.layers * 2 * c.kv_heads * c.depth * 4096 * 4 + c.vocabulary * 4 + kChosen));
    std::printf("%s: %llu bytes of weights, %llu of cache, %llu of scratch\n", s.name,
                static_cast<unsigned long long>(memory.weights), static_cast<unsigned long long>(memory.cache),
                static_cast<unsigned long long>(memory.scratch));
  }
}

TEST(LanguagePlans, CachesInFewerBitsAreSmaller) {
  const Sized s{"small", 2, 64, 4, 2, 128, 256, false, BlockType::Q8_0, 0, 0};
  TextOptions options;
  options.context = 512;
  std::vector<uint64_t> bytes;
  for (const CacheFormat format : {CacheFormat::F32, CacheFormat::F16, CacheFormat::Q8}) {
    options.cache = format;
    bytes.push_back(llm::planned_memory(*model_of(s, options), Target(default_limits())).cache - 256 * 4 - kChosen);
  }
  EXPECT_EQ(bytes[0], 2u * 2 * 2 * 16 * 512 * 4);
  EXPECT_EQ(bytes[1], bytes[0] / 2);
  EXPECT_EQ(bytes[2], bytes[0] / 4 * 5 / 4);  // four words and a scale for 16 elements
}

// The head of a file, as far as it says what the model is.
Gguf head_with(const Metadata& more) {
  Metadata metadata = {{"general.architecture", "llama"},          {"llama.block_count", int64_t{2}},
                       {"llama.embedding_length", int64_t{32}},    {"llama.context_length", int64_t{64}},
                       {"llama.feed_forward_length", int64_t{48}}, {"llama.attention.head_count", int64_t{4}}};
  for (const auto& [key, value] : more) metadata[key] = value;
  return Gguf("m.gguf", metadata, {{"token_embd.weight", BlockType::F32, {64, 32}, 0, 64 * 32 * 4}});
}

void expect_refused(const Metadata& more, ErrorCode code, const std::string& part) {
  try {
    llm::read_config(head_with(more));
    ADD_FAILURE() << "no error; wanted one with " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(LanguageConfig, WhatWouldChangeResultsIsNotIgnored) {
  EXPECT_NO_THROW(llm::read_config(head_with({})));
  EXPECT_NO_THROW(llm::read_config(head_with({{"llama.logit_scale", 1.0},
                                              {"llama.expert_gating_func", int64_t{1}},
                                              {"llama.attention.causal", true},
                                              {"llama.expert_shared_count", int64_t{0}},
                                              {"llama.use_parallel_residual", false}})));
  const std::pair<const char*, GgufValue> others[] = {{"attention.causal", false},
                                                      {"attention.clamp_kqv", 8.0},
                                                      {"attention.max_alibi_bias", 8.0},
                                                      {"logit_scale", 0.5},
                                                      {"residual_scale", 0.5},
                                                      {"embedding_scale", 12.0},
                                                      {"use_parallel_residual", true},
                                                      {"expert_shared_count", int64_t{1}},
                                                      {"expert_gating_func", int64_t{2}},
                                                      {"expert_weights_scale", 2.5},
                                                      {"rope.scaling.yarn_log_multiplier", 0.1},
                                                      {"rope.dimension_sections", std::vector<int64_t>{1, 2}}};
  for (const auto& [name, value] : others)
    expect_refused({{std::string("llama.") + name, value}}, ErrorCode::Unsupported, name);
  expect_refused({{"llama.pooling_type", int64_t{9}}}, ErrorCode::Unsupported, "pooling_type");
  expect_refused({{"llama.rope.scaling.type", "dynamic"}}, ErrorCode::Unsupported, "dynamic");
  expect_refused({{"llama.attention.scale", -1.0}}, ErrorCode::InvalidModel, "attention.scale");
  EXPECT_EQ(llm::read_config(head_with({{"llama.pooling_type", int64_t{3}}})).pooling, llm::Pooling::Last);
}

TEST(LanguageConfig, TensorsThatAreNotUsedAreRefused) {
  const Sized s{"small", 2, 64, 4, 2, 128, 256, false, BlockType::F32, 0, 0};
  const auto model = model_of(s, {});
  std::vector<GgufTensor> tensors;
  for (const llm::WeightState& weight : model->weights())
    for (const llm::WeightPart& part : weight.parts) tensors.push_back({part.tensor, BlockType::F32, {}, 0, 0});
  EXPECT_NO_THROW(llm::refuse_unused(*model, Gguf("m.gguf", {}, tensors)));
  tensors.push_back({"blk.1.attn_sinks.weight", BlockType::F32, {4}, 0, 16});
  try {
    llm::refuse_unused(*model, Gguf("m.gguf", {}, tensors));
    FAIL() << "was not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'blk.1.attn_sinks.weight'"), std::string::npos) << error.what();
  }
}

// config.json of a mixture of experts, with a change.
HuggingFaceFiles experts_folder(const std::string& change) {
  HuggingFaceFiles files;
  files.subject = "folder";
  files.config = Json::parse(R"({"architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 4, "hidden_size": 32,
      "max_position_embeddings": 64, "intermediate_size": 48, "num_attention_heads": 4, "num_experts": 6,
      "num_experts_per_tok": 2, "moe_intermediate_size": 24})");
  files.config.merge_patch(Json::parse(change));
  return files;
}

TEST(ExpertsOfFolders, LayersAreAsTheConfigSays) {
  std::vector<float> factors;
  const auto layers = [&](const std::string& change) {
    return std::get<std::vector<bool>>(hugging_face_shape(experts_folder(change), factors).at("gyrus.experts.layers"));
  };
  EXPECT_EQ(layers("{}"), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(layers(R"({"decoder_sparse_step": 2})"), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(layers(R"({"mlp_only_layers": [0, 3]})"), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(layers(R"({"num_experts": 0})"), (std::vector<bool>{false, false, false, false}));
  const auto normed = [&](const std::string& change) {
    return std::get<bool>(hugging_face_shape(experts_folder(change), factors).at("qwen3moe.expert_weights_norm"));
  };
  EXPECT_FALSE(normed("{}"));  // as transformers takes it where the file says nothing
  EXPECT_TRUE(normed(R"({"norm_topk_prob": true})"));
}

TEST(ExpertsOfFolders, WhatMakesNoSenseIsOneLine) {
  std::vector<float> factors;
  const std::pair<const char*, const char*> bad[] = {{R"({"decoder_sparse_step": 0})", "decoder_sparse_step"},
                                                     {R"({"mlp_only_layers": [4]})", "mlp_only_layers"},
                                                     {R"({"mlp_only_layers": 1})", "mlp_only_layers"},
                                                     {R"({"mlp_only_layers": [-1]})", "mlp_only_layers"},
                                                     {R"({"num_experts_per_tok": null})", "num_experts_per_tok"},
                                                     {R"({"num_experts": null})", "num_experts"},
                                                     {R"({"moe_intermediate_size": null})", "moe_intermediate_size"},
                                                     {R"({"num_hidden_layers": 99999999})", "num_hidden"}};
  for (const auto& [change, part] : bad) {
    try {
      hugging_face_shape(experts_folder(change), factors);
      ADD_FAILURE() << "no error; wanted one with " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(hugging_face_tensor("model.layers.2.mlp.experts.5.up_proj.weight", "f"), "blk.2.ffn_up.5.weight");
  EXPECT_EQ(hugging_face_tensor("model.layers.2.mlp.gate.weight", "f"), "blk.2.ffn_gate_inp.weight");
  for (const char* name : {"model.layers.2.mlp.experts.gate_up_proj", "model.layers.2.mlp.experts.5.up_proj.bias",
                           "model.layers.2.mlp.shared_expert.up_proj.weight"})
    EXPECT_THROW(hugging_face_tensor(name, "f"), Error) << name;
}

// One layer of three experts with tensors of their own; `missing` and `odd` (of another shape) name some.
void read_experts_of(const std::vector<bool>& routed, const std::string& missing, const std::string& odd) {
  llm::Config c;
  c.architecture = "qwen3moe";
  c.layers = 1;
  c.width = c.hidden = 32;
  c.heads = c.kv_heads = 4;
  c.depth = c.turning = 8;
  c.vocabulary = c.context = 64;
  c.experts = 3;
  c.experts_used = 2;
  c.expert_hidden = 8;
  c.routed = routed;
  const auto sources = [&](const std::string& name) -> std::optional<llm::Source> {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (name == missing || has("qkv") || has("exps") || has("q_norm") || has("k_norm") || has("rope") || has("bias") ||
        name == "output.weight" || name == "blk.0.ffn_gate.weight" || name == "blk.0.ffn_up.weight" ||
        name == "blk.0.ffn_down.weight")
      return std::nullopt;
    if (has("norm")) return llm::Source{BlockType::F32, {32}, {}};
    if (has("token_embd")) return llm::Source{BlockType::F32, {64, 32}, {}};
    if (has("ffn_gate_inp")) return llm::Source{BlockType::F32, {3, 32}, {}};
    if (has("ffn_gate.") || has("ffn_up.")) return llm::Source{BlockType::F32, {name == odd ? 9 : 8, 32}, {}};
    if (has("ffn_down.")) return llm::Source{BlockType::F32, {32, 8}, {}};
    return llm::Source{BlockType::F32, {32, 32}, {}};
  };
  const llm::Model model(c, sources, llm::with_context({}, c, "folder"), "folder");
  for (const llm::WeightState& weight : model.weights()) {
    if (weight.name.find("ffn_up_exps") == std::string::npos) continue;
    ASSERT_EQ(weight.parts.size(), 3u);
    EXPECT_EQ(weight.parts[2].tensor, "blk.0.ffn_up.2.weight");
    EXPECT_EQ(weight.parts[2].offset, 2u * 8 * 32 * 4);
  }
}

TEST(ExpertsOfFolders, TensorsMustBeWhatTheConfigSays) {
  EXPECT_NO_THROW(read_experts_of({true}, "", ""));
  EXPECT_NO_THROW(read_experts_of({}, "", ""));
  const auto message = [](const std::vector<bool>& routed, const std::string& missing, const std::string& odd) {
    try {
      read_experts_of(routed, missing, odd);
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(message({false}, "", "").find("no tensor blk.0.ffn_"), std::string::npos) << message({false}, "", "");
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_up.0.weight", "blk.0.ffn_down.2.weight"})
    EXPECT_NE(message({true}, name, "").find("has no tensor blk.0.ffn_"), std::string::npos)
        << message({true}, name, "");
  EXPECT_NE(message({true}, "", "blk.0.ffn_gate.1.weight").find("blk.0.ffn_gate.1.weight is F32[9,32]"),
            std::string::npos)
      << message({true}, "", "blk.0.ffn_gate.1.weight");
}

}  // namespace
}  // namespace gyrus::test
