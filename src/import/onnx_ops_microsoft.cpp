// Ops of com.microsoft, which onnxruntime's exporters write.

#include <cmath>
#include <limits>

#include "import/onnx_attention.h"
#include "import/onnx_norm.h"

namespace gyrus::onnx {
namespace {

Vals fast_gelu(Ctx& c) {
  const Val x = c.has(1) ? c.in(0) + c.in(1) : c.in(0);
  return {op("gelu", {x}, {{"approximate", "tanh"}})};
}

Vals bias_gelu(Ctx& c) { return {op("gelu", {c.has(1) ? c.in(0) + c.in(1) : c.in(0)})}; }

Vals quick_gelu(Ctx& c) {
  const Val x = c.in(0);
  return {x * op("sigmoid", {x * c.number("alpha", 1.702)})};
}

Vals fused_matmul(Ctx& c) {
  if (c.integer("transBatchA", 0) != 0 || c.integer("transBatchB", 0) != 0) unsupported("transBatchA or transBatchB");
  return {matmul(c.in(0), c.in(1), c.integer("transA", 0) != 0, c.integer("transB", 0) != 0) * c.number("alpha", 1)};
}

Vals skip_layer_norm(Ctx& c) {
  Val sum = c.in(0) + c.in(1);
  if (c.has(4)) sum = sum + c.in(4);
  const Normed n = layer_norm(sum, sum.rank() - 1, c.number("epsilon", 1e-12), c.in(2), c.opt(3));
  return {n.y, n.mean, n.inverse, sum};
}

Vals skip_rms_norm(Ctx& c) {
  Val sum = c.in(0) + c.in(1);
  if (c.has(3)) sum = sum + c.in(3);
  if (c.wants(1) || c.wants(2)) unsupported("mean and variance as outputs");
  return {rms_norm(sum, sum.rank() - 1, c.number("epsilon", 1e-12), c.in(2)), {}, {}, sum};
}

Vals rms_norm_node(Ctx& c) {
  const Val x = c.in(0);
  return {rms_norm(x, axis_of(c.integer("axis", -1), x.rank()), c.number("epsilon", 1e-5), c.in(1))};
}

Vals embed_layer_norm(Ctx& c) {
  const Val ids = c.in(0);
  const auto rows = [](Val table, Val at) { return op("gather", {table, at}, {{"axis", int64_t{0}}}); };
  const int64_t batch = ids.extent(0), length = ids.extent(1);
  Val sum = rows(c.in(2), ids);
  sum = sum + (c.has(8) ? rows(c.in(3), c.in(8)) : slice(c.in(3), 0, 0, length));
  if (c.has(1) && c.has(4)) sum = sum + rows(c.in(4), c.in(1));
  const Normed n = layer_norm(sum, 2, c.number("epsilon", 1e-12), c.in(5), c.in(6));
  // The second result says how many words of each row count.
  const Val lengths = c.has(7) ? cast(reduce("reduce_sum", cast(c.in(7), Elem::I32), {1}, false), Elem::I32)
                               : indices(c.graph(), {batch}, Ints(static_cast<size_t>(batch), 0));
  return {n.y, lengths, sum};
}

// What is added to scores: `hidden` where a key is not seen.
Val hiding(Val seen, double hidden) {
  return op("where", {seen, floats(*seen.graph, {}, {0}), floats(*seen.graph, {}, {hidden})});
}

Vals expand_dims(Ctx& c) {
  const Val x = c.in(0);
  return {unsqueeze(x, axis_of(whole(c.known_number(1)), x.rank() + 1))};
}

// Keys that a mask of lengths [B], of keys [B,L] or of pairs [B,S,L] lets through, to broadcast over [B,H,S,L].
Val seen_keys(Ctx& c, Val given, int64_t batch, int64_t keys) {
  const Val m = cast(given, Elem::I32);
  if (m.rank() == 1 && m.size() == batch)
    return op("less", {indices(c.graph(), {keys}, range(keys)), reshape(m, {batch, 1, 1, 1})});
  const Val on = op("greater", {m, scalar(m, 0)});
  if (m.rank() == 2) return reshape(on, {m.extent(0), 1, 1, m.extent(1)});
  if (m.rank() == 3) return unsqueeze(on, 1);
  unsupported(cat("a mask of shape ", gyrus::to_string(given.shape())));
}

Val causal_mask(Graph& graph, int64_t rows, int64_t keys, int64_t past, int64_t window = -1) {
  std::vector<uint8_t> seen(static_cast<size_t>(listed(rows * keys)));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < keys; ++j)
      seen[static_cast<size_t>(i * keys + j)] = j <= i + past && (window < 0 || j > i + past - window);
  return mask(graph, {rows, keys}, seen);
}

Val both_seen(Val a, Val b) { return !a ? b : !b ? a : op("logical_and", {a, b}); }

Vals attention(Ctx& c) {
  const Val x = c.in(0), weight = c.in(1);
  const int64_t heads = c.integer("num_heads"), batch = x.extent(0), rows = x.extent(1);
  if (c.integer("do_rotary", 0) != 0) unsupported("do_rotary");
  Val all = matmul(x, unsqueeze(weight, 0));
  if (c.has(2)) all = all + c.in(2);
  Ints sizes = c.list("qkv_hidden_sizes");
  if (sizes.empty()) sizes = Ints(3, all.extent(2) / 3);
  const Val q = split_heads(slice(all, 2, 0, sizes.at(0)), heads);
  Val k = split_heads(slice(all, 2, sizes[0], sizes[0] + sizes.at(1)), heads);
  Val v = split_heads(slice(all, 2, sizes[0] + sizes[1], all.extent(2)), heads);
  int64_t past = 0;
  if (c.has(4)) {
    past = c.in(4).extent(3);
    k = concat({squeeze(slice(c.in(4), 0, 0, 1), 0), k}, 2);
    v = concat({squeeze(slice(c.in(4), 0, 1, 2), 0), v}, 2);
  }
  const int64_t keys = k.extent(2);
  Val seen = c.has(3) ? seen_keys(c, c.in(3), batch, keys) : Val{};
  if (c.integer("unidirectional", 0) != 0) seen = both_seen(seen, causal_mask(c.graph(), rows, keys, past));
  Val bias = seen ? hiding(seen, c.number("mask_filter_value", -10000)) : Val{};
  if (c.has(5)) bias = bias ? bias + c.in(5) : c.in(5);
  const double given = c.number("scale", 0), width = static_cast<double>(q.extent(3));
  const Val y = attend_whole(q, k, v, bias, given != 0 ? given : 1 / std::sqrt(width), 0);
  Vals results = {join_heads(y)};
  if (c.wants(1)) results.push_back(concat({unsqueeze(k, 0), unsqueeze(v, 0)}, 0));
  return results;
}

Vals multi_head_attention(Ctx& c) {
  if (!c.has(1) || !c.has(2)) unsupported("packed queries, keys and values");
  const int64_t heads = c.integer("num_heads");
  Val q = c.in(0), k = c.in(1), v = c.in(2);
  if (c.has(3)) {
    const int64_t n = q.extent(2), m = k.extent(2), w = c.in(3).size();
    q = q + slice(c.in(3), 0, 0, n);
    if (k.rank() == 3) {
      k = k + slice(c.in(3), 0, n, n + m);
      v = v + slice(c.in(3), 0, n + m, w);
    }
  }
  q = split_heads(q, heads);
  if (k.rank() == 3) k = split_heads(k, heads);
  if (v.rank() == 3) v = split_heads(v, heads);
  int64_t past = 0;
  if (c.has(6)) {
    past = c.in(6).extent(2);
    k = concat({c.in(6), k}, 2);
    v = concat({c.in(7), v}, 2);
  }
  const int64_t keys = k.extent(2);
  Val seen = c.has(4) ? seen_keys(c, c.in(4), q.extent(0), keys) : Val{};
  if (c.integer("unidirectional", 0) != 0) seen = both_seen(seen, causal_mask(c.graph(), q.extent(2), keys, past));
  Val bias = seen ? hiding(seen, c.number("mask_filter_value", -10000)) : Val{};
  if (c.has(5)) bias = bias ? bias + c.in(5) : c.in(5);
  const double given = c.number("scale", 0), width = static_cast<double>(q.extent(3));
  const Val y = attend_whole(q, k, v, bias, given != 0 ? given : 1 / std::sqrt(width), 0);
  return {join_heads(y), k, v};
}

Vals rotary_embedding(Ctx& c) {
  Val x = c.in(0), cos = c.in(2), sin = c.in(3);
  if (c.number("scale", 1) != 1) unsupported("a scale");
  const bool flat = x.rank() == 3;
  const int64_t given = c.integer("rotary_embedding_dim", 0), heads = c.integer("num_heads", 0);
  if (flat) {
    const int64_t width = given > 0 && heads == 0 ? given : 2 * cos.extent(1);
    x = split_heads(x, heads > 0 ? heads : x.extent(2) / width);
  }
  const int64_t dim = given > 0 ? given : x.extent(3), length = x.extent(2);
  Val at = c.in(1);
  if (at.size() == 1 && length != 1)
    at = reshape(cast(at, Elem::I32), {1, 1}) + indices(c.graph(), {1, length}, range(length));
  if (at.rank() == 1) at = reshape(at, {1, at.size()});
  const auto rows = [&](Val table) {
    return unsqueeze(slice(op("gather", {table, at}, {{"axis", int64_t{0}}}), 2, 0, dim / 2), 1);
  };
  const Val y = rotate(x, rows(cos), rows(sin), dim, c.integer("interleaved", 0) != 0);
  return {flat ? join_heads(y) : y};
}

// Keys and values are those of the past with the new ones behind them; all of the past counts.
Vals group_query_attention(Ctx& c) {
  const int64_t heads = c.integer("num_heads"), kv_heads = c.integer("kv_num_heads");
  Val q = c.in(0), k = c.opt(1), v = c.opt(2);
  if (!k) {  // packed
    const int64_t width = q.extent(2) / (heads + 2 * kv_heads);
    v = slice(q, 2, (heads + kv_heads) * width, q.extent(2));
    k = slice(q, 2, heads * width, (heads + kv_heads) * width);
    q = slice(q, 2, 0, heads * width);
  }
  q = split_heads(q, heads);
  k = split_heads(k, kv_heads);
  v = split_heads(v, kv_heads);
  const int64_t past = c.has(3) ? c.in(3).extent(2) : 0, rows = q.extent(2);
  if (past > 0 && c.has(5))
    for (const int64_t last : c.known_ints(5))
      if (last != past + rows - 1) unsupported("sequences of several lengths, or a past with room for more");
  if (c.integer("do_rotary", 0) != 0) {
    const auto part = [&](size_t i) {
      return reshape(slice(c.in(i), 0, past, past + rows), {1, 1, rows, c.in(i).extent(1)});
    };
    const int64_t dim = 2 * c.in(7).extent(1);
    const bool interleaved = c.integer("rotary_interleaved", 0) != 0;
    q = rotate(q, part(7), part(8), dim, interleaved);
    k = rotate(k, part(7), part(8), dim, interleaved);
  }
  if (past > 0) {
    k = concat({c.in(3), k}, 2);
    v = concat({c.in(4), v}, 2);
  }
  const int64_t window = c.integer("local_window_size", -1);
  Val bias = causal_bias(c.graph(), rows, k.extent(2), past, window);
  if (c.has(10)) bias = bias + c.in(10);
  const double given = c.number("scale", 0), width = static_cast<double>(q.extent(3));
  const Val y = attend_whole(q, k, v, bias, given != 0 ? given : 1 / std::sqrt(width), c.number("softcap", 0));
  return {join_heads(y), k, v};
}

}  // namespace

const OpTable& microsoft_ops() {
  static const OpTable table = [] {
    OpTable t;
    t["FastGelu"] = fast_gelu;
    t["BiasGelu"] = bias_gelu;
    t["Gelu"] = bias_gelu;
    t["QuickGelu"] = quick_gelu;
    t["FusedMatMul"] = fused_matmul;
    t["TransposeMatMul"] = fused_matmul;
    t["SkipLayerNormalization"] = skip_layer_norm;
    t["SkipSimplifiedLayerNormalization"] = skip_rms_norm;
    t["SimplifiedLayerNormalization"] = rms_norm_node;
    t["EmbedLayerNormalization"] = embed_layer_norm;
    t["Attention"] = attention;
    t["MultiHeadAttention"] = multi_head_attention;
    t["RotaryEmbedding"] = rotary_embedding;
    t["GroupQueryAttention"] = group_query_attention;
    add_few_bits_ops(t);
    t["ExpandDims"] = expand_dims;
    if constexpr (kPacked) add_microsoft_quantized_ops(t);  // pages go without
    for (const char* name : {"QuantizeLinear", "DequantizeLinear", "Trilu", "GatherND"})
      t[name] = standard_ops().at(name);
    return t;
  }();
  return table;
}

void add_microsoft_twins(OpTable& t) {
  // onnxruntime's exporters write this one in the standard domain.
  t["SimplifiedLayerNormalization"] = rms_norm_node;
}

}  // namespace gyrus::onnx
