#include "llm/model.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/error.h"

namespace gyrus::llm {

Model::Model(Config config, Sources sources, const TextOptions& options, std::string subject)
    : config_(std::move(config)), sources_(std::move(sources)), options_(options), subject_(std::move(subject)) {
  const Config& c = config_;
  embedding_ = product("token_embd", {"token_embd.weight"}, {c.vocabulary}, c.width);
  if (c.positions) positions_ = product("position_embd", {"position_embd.weight"}, {c.context}, c.width);
  for (int64_t i = 0; i < c.layers; ++i) layers_.push_back(layer(i));
  output_norm_ = norm("output_norm");
  output_ = has("output.weight") ? product("output", {"output.weight"}, {c.vocabulary}, c.width) : embedding_;
  read_rope();
}

Source Model::source(const std::string& name) const {
  std::optional<Source> found = sources_(name);
  if (!found)
    fail(ErrorCode::InvalidModel, subject_, "has no tensor ", name, ", which a ", config_.architecture, " needs");
  return *found;
}

std::string Model::vector(const std::string& state, const std::vector<std::string>& tensors, const Shape& shape) {
  WeightState made{state, {DType::F32, shape, Layout::Plain}, {}};
  uint64_t at = 0;
  for (const std::string& name : tensors) {
    const Source tensor = source(name);
    made.parts.push_back({name, at, true});
    at += static_cast<uint64_t>(element_count(tensor.shape)) * 4;
  }
  if (at != static_cast<uint64_t>(element_count(shape)) * 4)
    fail(ErrorCode::InvalidModel, subject_, tensors.front(), " has ", at / 4 / tensors.size(), " elements, expected ",
         element_count(shape) / static_cast<int64_t>(tensors.size()));
  weights_.push_back(std::move(made));
  return state;
}

Model::Norm Model::norm(const std::string& name) {
  Norm made;
  made.gamma = vector(name + ".weight", {name + ".weight"}, {config_.width});
  if (config_.layer_norm) made.beta = vector(name + ".bias", {name + ".bias"}, {config_.width});
  return made;
}

Model::Product Model::product(const std::string& state, const std::vector<std::string>& names,
                              const std::vector<int64_t>& rows, int64_t columns, int64_t experts) {
  Product made;
  made.experts = experts;
  for (size_t i = 0; i < names.size(); ++i) {
    const Source tensor = source(names[i]);
    const Shape expected = experts > 1 ? Shape{experts, rows[i], columns} : Shape{rows[i], columns};
    if (tensor.shape != expected)
      fail(ErrorCode::InvalidModel, subject_, names[i], " is ", to_string(tensor.shape), ", expected ",
           to_string(expected));
    const BlockMatrix matrix{tensor.type, rows[i] * experts, columns};
    const auto bytes = static_cast<uint64_t>(matrix.rows) * matrix.row_bytes();
    const bool joins = i > 0 && made.matrices.back().matrix.type == tensor.type &&
                       weights_.back().type.dtype == DType::U32 &&
                       made.matrices.back().matrix.rows % matrix.rows_in_group() == 0;
    if (joins) {
      BlockMatrix& whole = made.matrices.back().matrix;
      weights_.back().parts.push_back({names[i], static_cast<uint64_t>(whole.rows) * matrix.row_bytes(), false});
      whole.rows += matrix.rows;
      weights_.back().type.shape = whole.shape();
      continue;
    }
    if (bytes % 2 != 0 && matrix.rows_in_group() == 4 && matrix.rows % 4 != 0 && i + 1 < names.size())
      fail(ErrorCode::Unsupported, subject_, names[i], " has an odd number of bytes");
    const std::string name = made.matrices.empty() ? state + ".weight" : cat(state, ".weight", i);
    made.matrices.push_back({name, matrix});
    WeightState& weight = weights_.emplace_back();
    weight.name = name;
    weight.type = {DType::U32, matrix.shape(), Layout::Plain};
    weight.parts.push_back({names[i], 0, false});
  }
  // Biases of some and none of others: those have none.
  std::vector<std::string> biases;
  int64_t biased = 0, all = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string name = names[i];
    const size_t suffix = name.rfind(".weight");
    name.replace(suffix, std::string::npos, ".bias");
    all += rows[i];
    if (experts > 1 || !has(name)) continue;
    biases.push_back(name);
    biased += rows[i];
  }
  if (biases.empty()) return made;
  if (biased != all)
    fail(ErrorCode::Unsupported, subject_, biases.front(), " is there, but not the biases of the products beside it");
  made.bias = vector(state + ".bias", biases, {all});
  return made;
}

Model::Product Model::expert_product(const std::string& at, const std::string& part, int64_t rows, int64_t columns) {
  const std::string whole = at + part + "_exps", first = cat(at, part, ".0.weight");
  if (has(whole + ".weight") || !has(first))
    return product(whole, {whole + ".weight"}, {rows}, columns, config_.experts);
  const BlockType type = source(first).type;
  const BlockMatrix all{type, rows * config_.experts, columns};
  const uint64_t bytes = static_cast<uint64_t>(rows) * all.row_bytes();
  if (bytes % 4 != 0) fail(ErrorCode::Unsupported, subject_, first, " has ", bytes, " bytes, which are no whole words");
  WeightState made{whole + ".weight", {DType::U32, all.shape(), Layout::Plain}, {}};
  for (int64_t i = 0; i < config_.experts; ++i) {
    const std::string name = cat(at, part, ".", i, ".weight");
    const Source tensor = source(name);
    if (tensor.shape != Shape{rows, columns} || tensor.type != type)
      fail(ErrorCode::InvalidModel, subject_, name, " is ", to_string(tensor.type), to_string(tensor.shape),
           ", expected ", to_string(type), to_string(Shape{rows, columns}), " as the first");
    made.parts.push_back({name, static_cast<uint64_t>(i) * bytes, false});
  }
  Product product;
  product.experts = config_.experts;
  product.matrices.push_back({made.name, all});
  weights_.push_back(std::move(made));
  return product;
}

bool Model::is_routed(int64_t layer) const {
  if (config_.experts == 0) return false;
  if (!config_.routed.empty()) return config_.routed.at(static_cast<size_t>(layer));
  return has(cat("blk.", layer, ".ffn_gate_inp.weight"));
}

Model::Layer Model::layer(int64_t index) {
  const Config& c = config_;
  const std::string at = cat("blk.", index, ".");
  Layer l;
  const int64_t queries = c.heads * c.depth, keys = c.kv_heads * c.depth;
  l.attention_norm = norm(at + "attn_norm");
  if (has(at + "attn_qkv.weight"))
    l.qkv = product(at + "attn_qkv", {at + "attn_qkv.weight"}, {queries + 2 * keys}, c.width);
  else
    l.qkv = product(at + "attn_qkv", {at + "attn_q.weight", at + "attn_k.weight", at + "attn_v.weight"},
                    {queries, keys, keys}, c.width);
  const std::string q_norm = at + "attn_q_norm.weight", k_norm = at + "attn_k_norm.weight";
  if (has(q_norm) || has(k_norm)) l.head_norms = vector(at + "attn_qk_norm", {q_norm, k_norm}, {2, c.depth});
  l.out = product(at + "attn_output", {at + "attn_output.weight"}, {c.width}, queries);
  if (c.post_norms) {
    l.attention_post = norm(at + "post_attention_norm");
    l.ffn_post = norm(at + "post_ffw_norm");
  }
  l.ffn_norm = norm(at + "ffn_norm");
  if (is_routed(index)) {
    l.router = product(at + "ffn_gate_inp", {at + "ffn_gate_inp.weight"}, {c.experts}, c.width);
    l.gate_up = expert_product(at, "ffn_gate", c.expert_hidden, c.width);
    l.up = expert_product(at, "ffn_up", c.expert_hidden, c.width);
    l.down = expert_product(at, "ffn_down", c.width, c.expert_hidden);
    return l;
  }
  if (!c.gated)
    l.gate_up = product(at + "ffn_up", {at + "ffn_up.weight"}, {c.hidden}, c.width);
  else if (has(at + "ffn_gate.weight"))
    l.gate_up =
        product(at + "ffn_gate_up", {at + "ffn_gate.weight", at + "ffn_up.weight"}, {c.hidden, c.hidden}, c.width);
  else
    l.gate_up = product(at + "ffn_up", {at + "ffn_up.weight"}, {2 * c.hidden}, c.width);
  l.down = product(at + "ffn_down", {at + "ffn_down.weight"}, {c.width}, c.hidden);
  return l;
}

void Model::read_rope() {
  std::string name = "rope_freqs.weight";
  if (has("rope_factors_long.weight") || has("rope_factors_short.weight"))
    name = static_cast<double>(options_.context) > config_.scaling.original_context ? "rope_factors_long.weight"
                                                                                    : "rope_factors_short.weight";
  if (name == "rope_freqs.weight" && !has(name)) return;
  const Source tensor = source(name);
  if (element_count(tensor.shape) != config_.turning / 2)
    fail(ErrorCode::InvalidModel, subject_, name, " has ", element_count(tensor.shape), " elements, expected ",
         config_.turning / 2);
  rope_factors_.assign(static_cast<size_t>(config_.turning / 2), 1);
  if (!tensor.data.empty()) dequantize(tensor.type, tensor.data, rope_factors_);
  for (const float factor : rope_factors_)
    if (!(factor > 0)) fail(ErrorCode::InvalidModel, subject_, name, " holds ", factor, ", expected numbers above 0");
}

Bytes Model::bytes(const WeightPart& part, std::vector<std::byte>& unpacked) const {
  const Source tensor = source(part.tensor);
  if (!part.floats || tensor.type == BlockType::F32) return tensor.data;
  unpacked.resize(static_cast<size_t>(element_count(tensor.shape)) * 4);
  dequantize(tensor.type, tensor.data, {reinterpret_cast<float*>(unpacked.data()), unpacked.size() / 4});
  return Bytes(unpacked.data(), unpacked.size());
}

uint64_t Model::weight_bytes() const {
  uint64_t bytes = 0;
  for (const WeightState& state : weights_)
    bytes += static_cast<uint64_t>(element_count(state.type.shape)) * byte_size(state.type.dtype);
  return bytes;
}

TextModelInfo Model::info() const {
  TextModelInfo info;
  info.architecture = config_.architecture;
  info.name = config_.name;
  info.layers = config_.layers;
  info.width = config_.width;
  info.heads = config_.heads;
  info.kv_heads = config_.kv_heads;
  info.head_width = config_.depth;
  info.vocabulary = config_.vocabulary;
  info.context = config_.context;
  for (const WeightState& state : weights_)
    for (const WeightPart& part : state.parts) {
      const Source tensor = source(part.tensor);
      const int64_t count = element_count(tensor.shape);
      info.parameters += count;
      info.formats[to_string(tensor.type)] += block_bytes(tensor.type, static_cast<uint64_t>(count));
    }
  return info;
}

void refuse_unused(const Model& model, const Gguf& file) {
  std::set<std::string> used = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};
  for (const WeightState& weight : model.weights())
    for (const WeightPart& part : weight.parts) used.insert(part.tensor);
  for (const GgufTensor& tensor : file.tensors()) {
    // A head that classifies texts stands beside the one that writes them; speeds of rotation follow from metadata.
    const bool beside = tensor.name.starts_with("cls.") || tensor.name.find(".attn_rot_embd") != std::string::npos;
    if (!beside && used.count(tensor.name) == 0)
      fail(ErrorCode::Unsupported, file.subject(), "has the tensor ", in_quotes(tensor.name),
           ", which gyrus does not use in a ", model.config().architecture);
  }
}

TextOptions with_context(TextOptions options, const Config& config, const std::string& subject) {
  constexpr int64_t kUsual = 4096;
  if (options.context == 0) options.context = std::min(config.context, kUsual);
  const int64_t most = config.positions ? config.context : int64_t{1} << 24;
  if (options.context < 2 || options.context > most)
    fail(ErrorCode::InvalidInput, subject, "a context of ", options.context, " tokens was asked for, expected 2 to ",
         most);
  if (options.sequences < 1 || options.sequences * options.context > (int64_t{1} << 24))
    fail(ErrorCode::InvalidInput, subject, options.sequences, " sequences of ", options.context,
         " tokens were asked for, expected 1 or more, and no more than 2^24 tokens in all");
  if (options.chunk < 1 || options.chunk > 4096)
    fail(ErrorCode::InvalidInput, subject, "chunks of ", options.chunk, " tokens were asked for, expected 1 to 4096");
  options.chunk = std::min(options.chunk, options.context);
  return options;
}

}  // namespace gyrus::llm
