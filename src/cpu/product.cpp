// Matrix products with a body behind them, and attention.
#include <cmath>
#include <memory>

#include "core/tensor.h"
#include "cpu/epilogue.h"
#include "cpu/matmul.h"
#include "cpu/singles.h"
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

Prepared prepare_attention(const Graph& graph, const Node& node, const KernelOptions&) {
  struct State {
    AttentionAttrs attrs;
    std::vector<int64_t> mask, bias;  // strides in the scores; empty: there is none
  };
  State made_of;
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
  const auto state = std::make_shared<const State>(std::move(made_of));
  Prepared made;
  made.kernel = "attention";
  // A row of scores at a time, which stays in the cache.
  made.run = [state](const Places& at, ThreadPool& pool) {
    const AttentionAttrs& s = state->attrs;
    const float *q = floats(at.inputs[0]), *k = floats(at.inputs[1]), *v = floats(at.inputs[2]);
    constexpr int64_t kRows = 8;
    const int64_t rows = s.batch * s.heads * s.queries;
    pool.parallel_for(ceil_div(rows, kRows), [&](int64_t part) {
      thread_local std::vector<float> parts;
      parts.resize(static_cast<size_t>(s.keys));
      for (int64_t row = part * kRows; row < std::min(rows, (part + 1) * kRows); ++row) {
        const int64_t i = row % s.queries, h = row / s.queries % s.heads, b = row / s.queries / s.heads;
        const int64_t kv = b * s.kv_heads + h * s.kv_heads / s.heads;
        const auto offset = [&](const std::vector<int64_t>& strides, int64_t j) {
          return b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
        };
        for (int64_t j = 0; j < s.keys; ++j) {
          float& score = parts[static_cast<size_t>(j)];
          if (!s.sees(i, j)) {
            score = -INFINITY;
            continue;
          }
          score = dot_strip(q + row * s.depth, k + (kv * s.keys + j) * s.depth, s.depth) * static_cast<float>(s.scale);
          if (s.softcap > 0) score = static_cast<float>(s.softcap * std::tanh(static_cast<double>(score) / s.softcap));
          if (!state->bias.empty()) score += floats(at.inputs[4])[offset(state->bias, j)];
          if (!state->mask.empty() && at.inputs[3][offset(state->mask, j)] == std::byte{0})
            score = static_cast<float>(s.hidden);
        }
        float* out = floats(at.outputs[0]) + row * s.value_depth;
        std::fill(out, out + s.value_depth, 0.0f);
        const float largest = strip_max(parts.data(), s.keys);
        if (largest == -INFINITY) continue;
        const double sum = exp_strip(parts.data(), parts.data(), s.keys, largest);
        for (int64_t j = 0; j < s.keys; ++j)
          if (parts[static_cast<size_t>(j)] != 0)
            add_scaled(v + (kv * s.keys + j) * s.value_depth, out, s.value_depth, parts[static_cast<size_t>(j)]);
        scale_strip(out, out, s.value_depth, static_cast<float>(1 / sum));
      }
    });
  };
  return made;
}

}  // namespace gyrus::cpu
