// Matrix products with a body behind them, and attention.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "core/tensor.h"
#include "cpu/epilogue.h"
#include "cpu/matmul.h"
#include "cpu/singles.h"
#include "cpu/strip_ops.h"
#include "ops/attention.h"
#include "ops/common.h"
#include "ops/matmul.h"

namespace gyrus::cpu {
namespace {

// Which matrix of an operand makes each matrix of the result; empty where it is its own.
std::vector<int64_t> matrices(const Shape& operand, const Shape& batch) {
  const Shape own(operand.begin(), operand.end() - 2);
  if (own == batch) return {};
  std::vector<int64_t> list;
  walk(batch, {broadcast_strides(own, batch)}, {0}, [&](const std::vector<int64_t>& at) { list.push_back(at[0]); });
  return list;
}

}  // namespace

Prepared prepare_product(const Graph& graph, const Node& node, const KernelOptions&) {
  struct State {
    TensorType a, b, bias;
    bool has_bias;
    MatmulPlan plan;
    Epilogue epilogue;
  };
  const TensorType a = graph.type(node.inputs[0]), b = graph.type(node.inputs[1]);
  const Matmul matmul = matmul_of(node, a.shape, b.shape);
  MatmulShape shape;
  shape.m = matmul.m;
  shape.n = matmul.n;
  shape.k = matmul.k;
  shape.transpose_a = matmul.transpose_a;
  shape.transpose_b = matmul.transpose_b;
  shape.batch = element_count(matmul.batch);
  shape.a_of = matrices(a.shape, matmul.batch);
  shape.b_of = matrices(b.shape, matmul.batch);
  Shape raw = matmul.batch;
  raw.push_back(matmul.m);
  raw.push_back(matmul.n);
  if (element_count(raw) == 0 || matmul.k == 0) return prepare_generic(graph, node, {});
  const bool has_bias = has_input(node, 2, node.inputs.size());
  MatmulPlan plan;
  if (graph.is_constant(node.inputs[1])) {
    const Singles constant(b, graph.constant(node.inputs[1]).data.data());
    plan = prepare_matmul(shape, constant.data());
  } else {
    plan = prepare_matmul(shape);
  }
  const auto state = std::make_shared<const State>(State{a, b, has_bias ? graph.type(node.inputs[2]) : TensorType{},
                                                         has_bias, std::move(plan), Epilogue(graph, node, raw)});
  Prepared made;
  made.kernel = "matmul";
  made.weights = static_cast<uint64_t>(state->plan.bytes());
  if (!state->epilogue.in_place()) made.scratch = static_cast<uint64_t>(element_count(raw)) * 4;
  made.run = [state](const Places& at, ThreadPool& pool) {
    const Singles left(state->a, at.inputs[0]), right(state->b, at.inputs[1]),
        bias(state->bias, state->has_bias ? at.inputs[2] : nullptr);
    const Epilogue& epilogue = state->epilogue;
    if (!epilogue.in_place()) {
      run_matmul(state->plan, left.data(), right.data(), bias.data(), floats(at.scratch), pool);
      return epilogue.run_all(at, floats(at.scratch), pool);
    }
    float* out = floats(at.outputs[0]);
    if (epilogue.empty()) return run_matmul(state->plan, left.data(), right.data(), bias.data(), out, pool);
    const MatmulShape& s = state->plan.shape();
    run_matmul(state->plan, left.data(), right.data(), bias.data(), out, pool, [&](const MatmulStrip& strip) {
      for (int64_t i = 0; i < strip.rows; ++i)
        epilogue.change(at, strip.values + i * strip.row_stride,
                        (strip.matrix * s.m + strip.row + i) * s.n + strip.column, strip.columns);
    });
  };
  return made;
}

namespace {

struct Attention {
  AttentionAttrs attrs;
  std::vector<int64_t> mask, bias;  // strides in the scores; empty: there is none
  int64_t rows = 1;                 // queries of a head that are taken together
};

// The keys that a query sees by its place alone; the ranges of later queries neither begin nor end earlier.
struct Range {
  int64_t begin = 0, end = 0;
};
Range seen_by(const AttentionAttrs& a, int64_t query) {
  const int64_t own = query + a.keys - a.queries;  // the key at its place
  Range range{0, a.keys};
  if (a.window > 0) range = {std::max<int64_t>(0, own - a.window + 1), std::min(a.keys, own + a.window)};
  if (a.causal) range.end = std::min(range.end, own + 1);
  return {range.begin, std::max(range.begin, range.end)};
}

// Products of a query with some keys → scores.
void finish_scores(const Attention& s, const Places& at, const std::array<int64_t, 3>& query, const Range& keys,
                   float* scores) {
  const int64_t count = keys.end - keys.begin;
  scale_strip(scores, scores, count, static_cast<float>(s.attrs.scale));
  if (s.attrs.softcap > 0)
    for (int64_t j = 0; j < count; ++j)
      scores[j] = static_cast<float>(s.attrs.softcap * std::tanh(static_cast<double>(scores[j]) / s.attrs.softcap));
  const auto offset = [&](const std::vector<int64_t>& strides, int64_t j) {
    return query[0] * strides[0] + query[1] * strides[1] + query[2] * strides[2] + (keys.begin + j) * strides[3];
  };
  for (int64_t j = 0; !s.bias.empty() && j < count; ++j) scores[j] += floats(at.inputs[4])[offset(s.bias, j)];
  for (int64_t j = 0; !s.mask.empty() && j < count; ++j)
    if (at.inputs[3][offset(s.mask, j)] == std::byte{0}) scores[j] = static_cast<float>(s.attrs.hidden);
}

// Scores → exponentials, of which some are 0; the inverse of their sum, 0 where the query sees nothing.
float exponentials(float* scores, int64_t count) {
  const float largest = count > 0 ? strip_max(scores, count) : -INFINITY;
  if (largest != -INFINITY) return static_cast<float>(1 / exp_strip(scores, scores, count, largest));
  std::fill_n(scores, count, 0.0f);
  return 0;
}

void multiply(int64_t m, int64_t n, int64_t k, bool transpose_b, const float* a, const float* b, float* out,
              ThreadPool& pool) {
  MatmulShape shape;
  shape.m = m, shape.n = n, shape.k = k, shape.transpose_b = transpose_b, shape.shares = 1;
  run_matmul(prepare_matmul(shape), a, b, nullptr, out, pool);
}

// Queries `first` to `first + rows - 1` of a head: two products with the scores between them, which stay in the cache.
void attend(const Attention& s, const Places& at, int64_t b, int64_t h, int64_t first, int64_t rows, ThreadPool& pool) {
  const AttentionAttrs& a = s.attrs;
  const int64_t head = b * a.heads + h, kv = b * a.kv_heads + h * a.kv_heads / a.heads;
  const Range keys{seen_by(a, first).begin, seen_by(a, first + rows - 1).end};
  const int64_t count = keys.end - keys.begin;
  float* out = floats(at.outputs[0]) + (head * a.queries + first) * a.value_depth;
  if (count <= 0) {
    std::fill_n(out, rows * a.value_depth, 0.0f);
    return;
  }
  thread_local std::vector<float> room, inverses;
  room.resize(static_cast<size_t>(rows * count));
  inverses.resize(static_cast<size_t>(rows));
  float *scores = room.data(), *inverse = inverses.data();
  multiply(rows, count, a.depth, true, floats(at.inputs[0]) + (head * a.queries + first) * a.depth,
           floats(at.inputs[1]) + (kv * a.keys + keys.begin) * a.depth, scores, pool);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * count;
    const Range own = seen_by(a, first + r);
    float* seen = row + own.begin - keys.begin;
    finish_scores(s, at, {b, h, first + r}, own, seen);
    inverse[r] = exponentials(seen, own.end - own.begin);
    std::fill(row, seen, 0.0f);
    std::fill(seen + (own.end - own.begin), row + count, 0.0f);
  }
  multiply(rows, a.value_depth, count, false, scores, floats(at.inputs[2]) + (kv * a.keys + keys.begin) * a.value_depth,
           out, pool);
  for (int64_t r = 0; r < rows; ++r)
    scale_strip(out + r * a.value_depth, out + r * a.value_depth, a.value_depth, inverse[r]);
}

}  // namespace

Prepared prepare_attention(const Graph& graph, const Node& node, const KernelOptions&) {
  constexpr int64_t kScores = 1 << 16;              // floats: they stay in the cache beside keys or values
  constexpr int64_t kMostRows = 256, kShares = 16;  // fewer leave threads without work
  Attention made_of;
  const AttentionAttrs a = attention_attrs(node, graph.type(node.inputs[0]).shape, graph.type(node.inputs[1]).shape,
                                           graph.type(node.inputs[2]).shape);
  made_of.attrs = a;
  const Shape scores = {a.batch, a.heads, a.queries, a.keys};
  if (has_input(node, 3, node.inputs.size()))
    made_of.mask = broadcast_strides(graph.type(node.inputs[3]).shape, scores);
  if (has_input(node, 4, node.inputs.size())) {
    made_of.bias = broadcast_strides(graph.type(node.inputs[4]).shape, scores);
    if (graph.type(node.inputs[4]).dtype != DType::F32) return prepare_generic(graph, node, {});
  }
  made_of.rows = std::clamp<int64_t>(kScores / std::max<int64_t>(1, a.keys), 8, kMostRows);
  made_of.rows = std::min(made_of.rows, std::max<int64_t>(16, ceil_div(a.batch * a.heads * a.queries, kShares)));
  const auto state = std::make_shared<const Attention>(std::move(made_of));
  Prepared made;
  made.kernel = "attention";
  made.run = [state](const Places& at, ThreadPool& pool) {
    const AttentionAttrs& s = state->attrs;
    const int64_t parts = ceil_div(s.queries, state->rows);
    pool.parallel_for(s.batch * s.heads * parts, [&](int64_t item) {
      const int64_t first = item % parts * state->rows, head = item / parts;
      attend(*state, at, head / s.heads, head % s.heads, first, std::min(state->rows, s.queries - first), pool);
    });
  };
  return made;
}

}  // namespace gyrus::cpu
