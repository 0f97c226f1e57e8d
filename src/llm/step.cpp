// The graph of a step: a row for each token.
#include <cmath>

#include "gyrus/nn.h"
#include "gyrus/ops.h"
#include "llm/model.h"
#include "ops/cache.h"

namespace gyrus::llm {
namespace {

DType cache_dtype(CacheFormat format) {
  return format == CacheFormat::F32 ? DType::F32 : format == CacheFormat::F16 ? DType::F16 : DType::U32;
}

}  // namespace

class Model::Builder {
 public:
  Builder(const Model& model, Graph& graph, int64_t rows, StepKind kind)
      : model_(model), c_(model.config_), graph_(graph), count_(rows), kind_(kind) {
    for (const WeightState& weight : model.weights_) types_[weight.name] = weight.type;
  }

  void build() {
    graph_.set_label("rows");
    rows_ = graph_.input("rows", DType::I32, {count_, kStepColumns});
    chosen_ = graph_.state("chosen", DType::I32, {model_.options_.sequences});
    rows_ = apply("chosen_rows", {rows_, chosen_});
    graph_.set_label("embedding");
    Value x = rows_of(model_.embedding_, 0, c_.embedding_scale);
    if (c_.positions) x = x + rows_of(model_.positions_, 2, 1);
    graph_.set_label("positions");
    turns_ = turns(false);
    local_turns_ = c_.local_base > 0 && c_.window > 0 ? turns(true) : turns_;
    for (size_t i = 0; i < model_.layers_.size(); ++i) x = layer(x, static_cast<int64_t>(i));
    finish(x);
  }

 private:
  Value state(const std::string& name) {
    Value& value = states_[name];
    if (!value) value = graph_.state(name, types_.at(name).dtype, types_.at(name).shape);
    return value;
  }

  Value rows_of(const Product& product, int64_t column, double scale) {
    const BlockMatrix& matrix = product.matrices.front().matrix;
    return apply("block_rows", {state(product.matrices.front().state), rows_},
                 {{"format", static_cast<int64_t>(matrix.type)},
                  {"rows", matrix.rows},
                  {"columns", matrix.columns},
                  {"column", column},
                  {"scale", scale},
                  {"clamp", int64_t{column == 2}}});
  }

  Value times(Value x, const Product& product, Value experts = {}) {
    std::vector<Value> operands(6);
    std::vector<int64_t> formats, rows;
    operands[0] = x;
    for (size_t m = 0; m < product.matrices.size(); ++m) {
      operands[1 + m] = state(product.matrices[m].state);
      formats.push_back(static_cast<int64_t>(product.matrices[m].matrix.type));
      rows.push_back(product.matrices[m].matrix.rows / product.experts);
    }
    if (!product.bias.empty()) operands[BlockMatmul::kBias] = state(product.bias);
    operands[BlockMatmul::kExperts] = experts;
    return apply("block_matmul", operands, {{"formats", formats}, {"rows", rows}, {"expert_count", product.experts}});
  }

  // Of what the norm makes of x; `act`: with its gate.
  Value normed_times(Value x, const Norm& norm, const Product& product, const std::string& act = "") {
    if (c_.layer_norm) {
      const Value made = times(normed(x, norm), product);
      return act.empty() ? made : apply("gated", {made}, {{"act", act}});
    }
    std::vector<Value> operands(6);
    std::vector<int64_t> formats, rows;
    operands[0] = x;
    operands[BlockNormed::kGamma] = state(norm.gamma);
    for (size_t m = 0; m < product.matrices.size(); ++m) {
      operands[2 + m] = state(product.matrices[m].state);
      formats.push_back(static_cast<int64_t>(product.matrices[m].matrix.type));
      rows.push_back(product.matrices[m].matrix.rows);
    }
    if (!product.bias.empty()) operands[1 + BlockMatmul::kBias] = state(product.bias);
    const bool together = act.empty() || product.matrices.size() == 1;
    const Value made = apply("block_normed", operands,
                             {{"formats", formats}, {"rows", rows}, {"eps", c_.eps}, {"act", together ? act : ""}});
    return together ? made : apply("gated", {made}, {{"act", act}});
  }

  Value normed(Value x, const Norm& norm) {
    if (c_.layer_norm) return layer_norm(x, state(norm.gamma), state(norm.beta), -1, c_.eps);
    return rms_norm(x, state(norm.gamma), -1, c_.eps);
  }

  Value turns(bool local) {
    const std::vector<double> speeds = rope_speeds(c_, local, local ? std::vector<float>{} : model_.rope_factors_);
    Tensor table(DType::F32, {static_cast<int64_t>(speeds.size())});
    for (size_t i = 0; i < speeds.size(); ++i) set(table, static_cast<int64_t>(i), speeds[i]);
    double scale = local ? 1 : c_.scaling.attention_factor;
    if (!local && c_.scaling.type == "yarn") scale *= 1 + 0.1 * std::log(c_.scaling.factor);
    return apply("rope_turns", {rows_, graph_.constant(std::move(table))}, {{"scale", scale}});
  }

  Value layer(Value x, int64_t index) {
    const Layer& l = model_.layers_[static_cast<size_t>(index)];
    const std::string name = cat("layer", index);
    graph_.set_label(name + ".attention");
    Value made = times(attended(x, l, index), l.out);
    if (c_.post_norms) made = normed(made, l.attention_post);
    x = x + made;
    graph_.set_label(name + ".network");
    made = l.router.matrices.empty() ? network(x, l) : mixture(normed(x, l.ffn_norm), l);
    if (c_.post_norms) made = normed(made, l.ffn_post);
    return x + made;
  }

  Value attended(Value x, const Layer& l, int64_t index) {
    const bool local = c_.is_local(index);
    const TextOptions& o = model_.options_;
    const DType dtype = cache_dtype(o.cache);
    const Value cache =
        graph_.state(cat("cache.", index), dtype, cache_shape(dtype, o.context * o.sequences, c_.kv_heads, c_.depth));
    const Value turn = local ? local_turns_ : turns_;
    Node node;
    node.op = "cache_rows";
    node.label = graph_.label();
    node.attrs = {{"heads", c_.heads}, {"kv_heads", c_.kv_heads}, {"halves", int64_t{c_.halves}}, {"eps", c_.eps}};
    node.inputs = {normed_times(x, l.attention_norm, l.qkv).id(), cache.id(), turn.id()};
    if (!l.head_norms.empty()) node.inputs.push_back(state(l.head_norms).id());
    const std::vector<ValueId> made = graph_.add_node(std::move(node));
    graph_.update(cache, Value(graph_, made[1]));
    return apply("cached_attention", {Value(graph_, made[0]), Value(graph_, made[1]), turn},
                 {{"heads", c_.heads},
                  {"kv_heads", c_.kv_heads},
                  {"scale", c_.attention_scale},
                  {"softcap", c_.attention_cap},
                  {"window", local ? c_.window : int64_t{0}}});
  }

  Value network(Value x, const Layer& l) {
    if (c_.gated) return times(normed_times(x, l.ffn_norm, l.gate_up, c_.act), l.down);
    return times(gelu_tanh(normed_times(x, l.ffn_norm, l.gate_up)), l.down);
  }

  // The networks of the experts that the router likes best, by their shares.
  Value mixture(Value h, const Layer& l) {
    const TopK best = top_k(softmax(times(h, l.router), -1), c_.experts_used, 1);
    Value shares = best.values;
    if (c_.experts_normed) shares = shares / reduce_sum(shares, {{1}, true});
    const Value gate = times(h, l.gate_up, best.positions), up = times(h, l.up, best.positions);
    const Value made = times(silu(gate) * up, l.down, best.positions);
    return reduce_sum(made * reshape(shares, {count_, c_.experts_used, 1}), {{1}, false});
  }

  void finish(Value x) {
    graph_.set_label("output");
    if (kind_ == StepKind::Last && count_ > 1) {
      const Value last = graph_.argument("last", DType::I32, 0, static_cast<double>(count_ - 1));
      x = gather(x, reshape(last, {1}), 0);
    }
    if (kind_ == StepKind::Normed) return graph_.output("normed", normed(x, model_.output_norm_));
    Value logits = normed_times(x, model_.output_norm_, model_.output_);
    if (c_.final_cap > 0) logits = tanh(logits * (1 / c_.final_cap)) * c_.final_cap;
    if (kind_ == StepKind::Logits) return graph_.output("logits", logits);
    const int64_t tokens = kind_ == StepKind::Last ? 1 : count_;
    graph_.set_label("choice");
    const Value params = graph_.input("params", DType::I32, {tokens, 8});
    const Value seen = graph_.state("seen", DType::U32, {model_.options_.sequences, c_.vocabulary});
    const Value marked = apply("mark_tokens", {seen, rows_});
    graph_.update(seen, marked);
    const Value made = apply("choose_token", {logits, params, marked});
    graph_.output("tokens", made);
    graph_.update(chosen_, tokens == model_.options_.sequences ? made : update_slice(chosen_, made, 0, 0));
    graph_.capture("logits", logits);
  }

  const Model& model_;
  const Config& c_;
  Graph& graph_;
  int64_t count_;
  StepKind kind_;
  std::map<std::string, TensorType> types_;
  std::map<std::string, Value> states_;
  Value rows_, chosen_, turns_, local_turns_;
};

Graph Model::step(int64_t rows, StepKind kind) const {
  Graph graph;
  Builder(*this, graph, rows, kind).build();
  return graph;
}

}  // namespace gyrus::llm
