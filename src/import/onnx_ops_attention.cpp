// Attention and what stands around it.

#include "import/onnx_attention.h"

#include <cmath>
#include <limits>

#include "gyrus/nn.h"

namespace gyrus::onnx {

Attended attend(Val q, Val k, Val v, Val bias, double scale, double softcap) {
  const int64_t batch = q.extent(0), heads = q.extent(1), rows = q.extent(2), width = q.extent(3);
  const int64_t kv_heads = k.extent(1), keys = k.extent(2);
  if (kv_heads < 1 || heads % kv_heads != 0) invalid(cat(heads, " heads of queries for ", kv_heads, " of keys"));
  const int64_t group = heads / kv_heads;
  const Elem elem = q.elem;
  // Queries that share keys stand below one another.
  const Val grouped = reshape(q * scale, {batch, kv_heads, group * rows, width});
  Attended a;
  a.raw = cast(reshape(matmul(grouped, k, false, true), {batch, heads, rows, keys}), Elem::F32);
  a.capped = softcap != 0 ? op("tanh", {a.raw / softcap}) * softcap : a.raw;
  a.biased = bias ? a.capped + cast(bias, Elem::F32) : a.capped;
  a.weights = cast(softmax(a.biased, 3), elem);
  const Val weights = reshape(a.weights, {batch, kv_heads, group * rows, keys});
  a.y = reshape(matmul(weights, v), {batch, heads, rows, v.extent(3)});
  return a;
}

Val attend_whole(Val q, Val k, Val v, Val bias, double scale, double softcap) {
  const Elem elem = q.elem;
  Attrs attrs{{"scale", scale}};
  if (softcap != 0) attrs.set("softcap", softcap);
  const auto wide = [](Val x) { return x ? cast(x, Elem::F32) : x; };
  return cast(as(op("attention", {wide(q), wide(k), wide(v), {}, wide(bias)}, attrs), Elem::F32), elem);
}

Val causal_bias(Graph& graph, int64_t queries, int64_t keys, int64_t past, int64_t window) {
  std::vector<double> bias(static_cast<size_t>(listed(queries * keys)), 0);
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j)
      if (j > i + past || (window > 0 && j <= i + past - window))
        bias[static_cast<size_t>(i * keys + j)] = -std::numeric_limits<double>::infinity();
  return floats(graph, {queries, keys}, bias);
}

Val split_heads(Val x, int64_t heads) {
  if (x.rank() != 3 || heads < 1 || x.extent(2) % heads != 0)
    invalid(cat(heads, " heads in ", gyrus::to_string(x.shape())));
  return swap_axes(reshape(x, {x.extent(0), x.extent(1), heads, x.extent(2) / heads}), 1, 2);
}

Val join_heads(Val x) { return reshape(swap_axes(x, 1, 2), {x.extent(0), x.extent(2), x.extent(1) * x.extent(3)}); }

Val rotate(Val x, Val cos, Val sin, int64_t dim, bool interleaved) {
  return built({x, cos, sin}, [&](const Values& v) {
    return rope(v[0], {.n_rot = dim, .interleaved = interleaved, .cos = v[1], .sin = v[2]});
  });
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A mask of truth values or of numbers to add, along all keys.
Val mask_bias(Val mask, int64_t keys) {
  Val bias = mask;
  if (mask.dtype() == DType::Bool) {
    const Val zero = floats(*mask.graph, {}, {0}), hidden = floats(*mask.graph, {}, {-kInfinity});
    bias = op("where", {mask, zero, hidden});
  }
  bias = cast(bias, Elem::F32);
  const int64_t have = bias.extent(-1);
  if (have < keys && have != 1) {
    const Val hidden = filled(bias, with(bias.shape(), bias.rank() - 1, keys - have), -kInfinity);
    bias = concat({bias, hidden}, bias.rank() - 1);
  }
  return bias;
}

Vals attention(Ctx& c) {
  Val q = c.in(0), k = c.in(1), v = c.in(2);
  const bool flat = q.rank() == 3;
  if (flat) {
    q = split_heads(q, c.integer("q_num_heads"));
    k = split_heads(k, c.integer("kv_num_heads"));
    v = split_heads(v, c.integer("kv_num_heads"));
  }
  int64_t past = 0;
  if (c.has(4)) {
    past = c.in(4).extent(2);
    k = concat({c.in(4), k}, 2);
    v = concat({c.in(5), v}, 2);
  }
  const int64_t keys = k.extent(2), rows = q.extent(2);
  Val bias = c.has(3) ? mask_bias(c.in(3), keys) : Val{};
  const auto add = [&](Val more) { bias = bias ? bias + more : more; };
  if (c.integer("is_causal", 0) != 0) add(causal_bias(c.graph(), rows, keys, past));
  if (c.has(6)) {
    const Val length = reshape(cast(c.in(6), Elem::I32), {q.extent(0), 1, 1, 1});
    const Val seen = op("less", {indices(c.graph(), {keys}, range(keys)), length});
    add(op("where", {seen, floats(c.graph(), {}, {0}), floats(c.graph(), {}, {-kInfinity})}));
  }
  const double width = static_cast<double>(q.extent(3));
  const double scale = c.number("scale", 1 / std::sqrt(width)), softcap = c.number("softcap", 0);
  if (!c.wants(3)) {
    const Val y = attend_whole(q, k, v, bias, scale, softcap);
    return {flat ? join_heads(y) : y, k, v};
  }
  const Attended a = attend(q, k, v, bias, scale, softcap);
  const int64_t mode = c.integer("qk_matmul_output_mode", 0);
  const Val qk = mode == 0 ? a.raw : mode == 1 ? a.capped : mode == 2 ? a.biased : a.weights;
  return {flat ? join_heads(a.y) : a.y, k, v, cast(qk, q.elem)};
}

// Turns by tables of cos and sin, or by rows of them that positions choose.
Vals rotary_embedding(Ctx& c) {
  Val x = c.in(0), cos = c.in(1), sin = c.in(2);
  const bool flat = x.rank() == 3;
  if (flat) x = split_heads(x, c.integer("num_heads"));
  const int64_t width = x.extent(3), given = c.integer("rotary_embedding_dim", 0), dim = given == 0 ? width : given;
  if (c.has(3)) {
    cos = op("gather", {cos, c.in(3)}, {{"axis", int64_t{0}}});
    sin = op("gather", {sin, c.in(3)}, {{"axis", int64_t{0}}});
  }
  cos = slice(cos, cos.rank() - 1, 0, dim / 2);
  sin = slice(sin, sin.rank() - 1, 0, dim / 2);
  const Val y = rotate(x, unsqueeze(cos, 1), unsqueeze(sin, 1), dim, c.integer("interleaved", 0) != 0);
  return {flat ? join_heads(y) : y};
}

// state ← decay · state + k ⊗ write; y = scale · q state, one step after another, in f32.
Vals linear_attention(Ctx& c) {
  const Val query = c.in(0);
  const int64_t heads = c.integer("q_num_heads"), kv_heads = c.integer("kv_num_heads");
  const std::string rule = c.text("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    unsupported(cat("update_rule ", in_quotes(rule)));
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (kv_heads < 1 || heads % kv_heads != 0) invalid("heads of queries are no multiple of those of keys");
  const auto wide = [](Val x, int64_t n) { return cast(split_heads(x, n), Elem::F32); };
  const Val q = wide(query, heads), k = wide(c.in(1), kv_heads), v = wide(c.in(2), kv_heads);
  const int64_t batch = q.extent(0), steps = q.extent(2), dk = k.extent(3), dv = v.extent(3), group = heads / kv_heads;
  const double given = c.number("scale", 0), scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(dk));
  Val state = c.has(3) ? cast(c.in(3), Elem::F32) : filled(q, {batch, kv_heads, dk, dv}, 0);
  // One number a head, or one for each of its keys.
  const Val decay = gated ? op("exp", {wide(c.in(4), kv_heads)}) : Val{};
  Val beta;
  if (delta) {
    beta = cast(c.in(5), Elem::F32);
    beta = swap_axes(reshape(beta, {batch, steps, beta.extent(2), 1}), 1, 2);
  }
  Vals rows;
  for (int64_t t = 0; t < steps; ++t) {
    const Val kt = swap_axes(slice(k, 2, t, t + 1), 2, 3);  // [B,H,dk,1]
    Val write = slice(v, 2, t, t + 1);                      // [B,H,1,dv]
    if (gated) state = state * swap_axes(slice(decay, 2, t, t + 1), 2, 3);
    if (delta) write = (write - matmul(kt, state, true)) * slice(beta, 2, t, t + 1);
    state = state + kt * write;
    const Val qt = reshape(slice(q, 2, t, t + 1), {batch, kv_heads, group, dk});
    rows.push_back(reshape(matmul(qt, state) * scale, {batch, heads, 1, dv}));
  }
  return {cast(join_heads(concat(rows, 2)), query.elem), cast(state, query.elem)};
}

}  // namespace

void add_attention_ops(OpTable& t) {
  t["Attention"] = attention;
  t["RotaryEmbedding"] = rotary_embedding;
  t["LinearAttention"] = linear_attention;
}

}  // namespace gyrus::onnx
