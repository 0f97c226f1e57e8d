// Reductions, the largest along an axis, and ops over rows.
#include <cmath>
#include <limits>
#include <memory>

#include "core/error.h"
#include "core/tensor.h"
#include "cpu/kernel.h"
#include "cpu/statistics.h"
#include "ops/common.h"
#include "ops/reduce.h"
#include "ops/rows.h"

namespace gyrus::cpu {
namespace {

// A tensor as [outer, extent, inner] with the reduced axes in the middle; nothing where they are not neighbours.
struct Middle {
  int64_t outer = 1, extent = 1, inner = 1;
};

std::optional<Middle> middle_of(const Shape& shape, const std::vector<bool>& reduced) {
  Middle m;
  int stage = 0;  // before, in and behind the reduced axes
  for (size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 1) continue;
    if (reduced[a] && stage == 2) return std::nullopt;
    if (reduced[a])
      stage = 1;
    else if (stage == 1)
      stage = 2;
    (stage == 0 ? m.outer : stage == 1 ? m.extent : m.inner) *= shape[a];
  }
  return m;
}

enum class Fold : uint8_t { Sum, Mean, Max, Min };

double fold_line(Fold fold, const float* x, int64_t count) {
  if (fold == Fold::Max) return static_cast<double>(strip_max(x, count));
  if (fold == Fold::Min) {
    float least = INFINITY;
    for (int64_t i = 0; i < count; ++i) least = x[i] < least ? x[i] : least;
    return static_cast<double>(least);
  }
  double sum = 0;
  constexpr int64_t kPart = 4096;
  for (int64_t at = 0; at < count; at += kPart) sum += strip_sum(x + at, std::min(kPart, count - at));
  return fold == Fold::Mean ? sum / static_cast<double>(count) : sum;
}

// Elements side by side that are folded with those `inner` further on: doubles for a few columns at a time.
void fold_columns(Fold fold, const float* x, float* out, const Middle& m, int64_t columns) {
  constexpr int64_t kMost = 256;
  double sums[kMost];
  const bool adds = fold == Fold::Sum || fold == Fold::Mean;
  std::fill(sums, sums + columns, adds ? 0.0 : fold == Fold::Max ? -INFINITY : INFINITY);
  for (int64_t e = 0; e < m.extent; ++e) {
    const float* row = x + e * m.inner;
    for (int64_t i = 0; i < columns; ++i) {
      const auto v = static_cast<double>(row[i]);
      sums[i] = adds ? sums[i] + v : (fold == Fold::Max ? v > sums[i] : v < sums[i]) ? v : sums[i];
    }
  }
  const double divisor = fold == Fold::Mean ? static_cast<double>(m.extent) : 1;
  for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<float>(sums[i] / divisor);
}

}  // namespace

Prepared prepare_reduction(const Graph& graph, const Node& node, const KernelOptions&) {
  const TensorType& x = graph.type(node.inputs[0]);
  const std::optional<Middle> found = middle_of(x.shape, reduce_attrs(node, x.shape).reduced);
  if (x.dtype != DType::F32 || !found || element_count(x.shape) == 0) return prepare_generic(graph, node, {});
  const OpDef* def = &op(node.op);
  const Fold fold = def == &kReduceSum    ? Fold::Sum
                    : def == &kReduceMean ? Fold::Mean
                    : def == &kReduceMax  ? Fold::Max
                                          : Fold::Min;
  Prepared made;
  made.kernel = node.op;
  made.run = [m = *found, fold](const Places& at, ThreadPool& pool) {
    const float* in = floats(at.inputs[0]);
    float* out = floats(at.outputs[0]);
    if (m.inner == 1 && m.outer == 1 && m.extent > kGrain && (fold == Fold::Sum || fold == Fold::Mean)) {
      const int64_t parts = ceil_div(m.extent, kGrain);
      std::vector<double> sums(static_cast<size_t>(parts));
      pool.parallel_for(parts, [&](int64_t p) {
        sums[static_cast<size_t>(p)] = fold_line(Fold::Sum, in + p * kGrain, std::min(kGrain, m.extent - p * kGrain));
      });
      double sum = 0;
      for (double part : sums) sum += part;
      out[0] = static_cast<float>(fold == Fold::Mean ? sum / static_cast<double>(m.extent) : sum);
      return;
    }
    if (m.inner == 1) {
      const int64_t grain = std::max<int64_t>(1, kGrain / m.extent);
      pool.parallel_for(ceil_div(m.outer, grain), [&](int64_t part) {
        for (int64_t o = part * grain; o < std::min(m.outer, (part + 1) * grain); ++o)
          out[o] = static_cast<float>(fold_line(fold, in + o * m.extent, m.extent));
      });
      return;
    }
    constexpr int64_t kColumns = 256;
    const int64_t parts = ceil_div(m.inner, kColumns);
    pool.parallel_for(m.outer * parts, [&](int64_t i) {
      const int64_t o = i / parts, first = i % parts * kColumns;
      fold_columns(fold, in + o * m.extent * m.inner + first, out + o * m.inner + first, m,
                   std::min(kColumns, m.inner - first));
    });
  };
  return made;
}

Prepared prepare_argmax(const Graph& graph, const Node& node, const KernelOptions&) {
  const TensorType x = graph.type(node.inputs[0]), out = graph.type(node.outputs[0]);
  if (x.dtype != DType::F32 || flag(node, "last") || element_count(x.shape) == 0)
    return prepare_generic(graph, node, {});
  const Middle m = *middle_of(x.shape, reduce_attrs(node, x.shape).reduced);
  Prepared made;
  made.kernel = "argmax";
  made.run = [m, dtype = out.dtype, subject = subject_of(node)](const Places& at, ThreadPool& pool) {
    constexpr int64_t kColumns = 1024;
    const int64_t parts = ceil_div(m.inner, kColumns);
    pool.parallel_for(m.outer * parts, [&](int64_t item) {
      const int64_t o = item / parts, first = item % parts * kColumns, columns = std::min(kColumns, m.inner - first);
      thread_local std::vector<float> best;
      thread_local std::vector<uint32_t> labels;
      const float* in = floats(at.inputs[0]) + o * m.extent * m.inner + first;
      best.assign(in, in + columns);
      labels.assign(static_cast<size_t>(columns), 0);
      bool numbers = true;
      for (int64_t e = 0; e < m.extent; ++e) {
        const float* row = in + e * m.inner;
        for (int64_t i = 0; i < columns; ++i) numbers = numbers && row[i] == row[i];
        if (e > 0) pick_larger(row, best.data(), labels.data(), static_cast<uint32_t>(e), columns);
      }
      if (!numbers)
        fail(ErrorCode::NonFinite, {Hint::SinglePrecision, Hint::OtherDevice}, subject,
             "computed a value that is not finite");
      const int64_t to = o * m.inner + first;
      for (int64_t i = 0; i < columns; ++i) {
        if (byte_size(dtype) == 1)
          reinterpret_cast<uint8_t*>(at.outputs[0])[to + i] = static_cast<uint8_t>(labels[static_cast<size_t>(i)]);
        else
          reinterpret_cast<uint32_t*>(at.outputs[0])[to + i] = labels[static_cast<size_t>(i)];
      }
    });
  };
  return made;
}

Prepared prepare_rows(const Graph& graph, const Node& node, const KernelOptions&) {
  const Shape shape = graph.type(node.inputs[0]).shape;
  const RowKind kind = row_kind(node);
  const double eps = node.attrs.number("eps", 1e-5);
  const bool residual = has_input(node, kRowsResidual, node.inputs.size());
  Prepared made;
  made.kernel = "rows " + node.attrs.text("kind");
  made.run = [shape, kind, eps, residual](const Places& at, ThreadPool& pool) {
    const int64_t rows = shape[0], extent = shape[1], grain = std::max<int64_t>(1, kGrain / extent);
    const auto operand = [&](size_t i) { return i < at.inputs.size() ? floats(at.inputs[i]) : nullptr; };
    const float *gamma = operand(1), *beta = operand(2);
    pool.parallel_for(ceil_div(rows, grain), [&](int64_t part) {
      for (int64_t r = part * grain; r < std::min(rows, (part + 1) * grain); ++r) {
        const float* x = floats(at.inputs[0]) + r * extent;
        float* y = floats(at.outputs[0]) + r * extent;
        if (residual) {
          float* sum = floats(at.outputs[1]) + r * extent;
          const float* more = floats(at.inputs[kRowsResidual]) + r * extent;
          for (int64_t i = 0; i < extent; ++i) sum[i] = x[i] + more[i];
          x = sum;
        }
        if (kind == RowKind::Softmax || kind == RowKind::LogSoftmax) {
          const float largest = strip_max(x, extent);
          const double sum = exp_strip(x, y, extent, largest);
          if (kind == RowKind::Softmax)
            scale_strip(y, y, extent, static_cast<float>(1 / sum));
          else
            normalize_strip(x, y, extent, largest, 1, static_cast<float>(-std::log(sum)));
          continue;
        }
        Gathered found;
        found.add(x, extent);
        const bool centred = kind == RowKind::LayerNorm;
        const double mean = centred ? found.mean : 0;
        const double variance = found.squares / found.count + (centred ? 0 : found.mean * found.mean);
        affine_strip(x, y, extent, static_cast<float>(mean), static_cast<float>(1 / std::sqrt(variance + eps)), gamma,
                     beta);
      }
    });
  };
  return made;
}

}  // namespace gyrus::cpu
