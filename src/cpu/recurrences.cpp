// What goes along an axis and carries something: scans, selective scans, the delta rule, recurrent layers. Lines,
// channels, rows or sequences are shared out; each goes along the axis from its start to its end.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cpu/kernel.h"
#include "ops/common.h"
#include "ops/recurrent.h"
#include "ops/scan.h"

namespace gyrus::cpu {
namespace {

constexpr size_t kLanes = 8;

// Σ a b of as many elements, in sums side by side.
float dot(const float* a, const float* b, size_t count) {
  std::array<float, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t e = 0; e < kLanes; ++e) sums[e] += a[i + e] * b[i + e];
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float part : sums) sum += part;
  return sum;
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

struct Lines {
  ScanKind kind;
  int64_t outer, extent, inner;
  bool exclusive, reverse;
  float start;
};

// Elements `begin` to `end` of the lines of one outer index, side by side.
void scan_lines(const Lines& l, const float* factors, const float* x, const float* start, float* out, int64_t begin,
                int64_t end) {
  std::vector<float> value(static_cast<size_t>(end - begin), l.start);
  if (start) std::copy(start + begin, start + end, value.begin());
  for (int64_t k = 0; k < l.extent; ++k) {
    const int64_t row = (l.reverse ? l.extent - 1 - k : k) * l.inner;
    for (int64_t i = begin; i < end; ++i) {
      float& v = value[static_cast<size_t>(i - begin)];
      const float before = v, element = x[row + i];
      v = l.kind == ScanKind::Sum       ? v + element
          : l.kind == ScanKind::Product ? v * element
          : l.kind == ScanKind::Largest ? std::max(v, element)
                                        : factors[row + i] * v + element;
      out[row + i] = l.exclusive ? before : v;
    }
  }
}

}  // namespace

Prepared prepare_scan(const Graph& graph, const Node& node, const KernelOptions& options) {
  const TensorType& type = graph.type(node.inputs[0]);
  if (type.dtype != DType::F32 || element_count(type.shape) == 0) return prepare_generic(graph, node, options);
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), type.shape.size());
  const int64_t extent = type.shape[axis], inner = strides_of(type.shape)[axis];
  const ScanKind kind = scan_kind(node);
  const Lines l{kind,
                element_count(type.shape) / (extent * inner),
                extent,
                inner,
                flag(node, "exclusive"),
                flag(node, "reverse"),
                static_cast<float>(scan_start(kind, DType::F32))};
  Prepared made;
  made.kernel = node.op;
  made.run = [l](const Places& at, ThreadPool& pool) {
    const bool linear = l.kind == ScanKind::Linear;
    const float* start = linear && at.inputs.size() > 2 ? floats(at.inputs[2]) : nullptr;
    const int64_t together = 64, blocks = ceil_div(l.inner, together);
    pool.parallel_for(l.outer * blocks, [&](int64_t index) {
      const int64_t o = index / blocks, begin = index % blocks * together, plane = o * l.extent * l.inner;
      scan_lines(l, linear ? floats(at.inputs[0]) + plane : nullptr, floats(at.inputs[linear ? 1 : 0]) + plane,
                 start ? start + o * l.inner : nullptr, floats(at.outputs[0]) + plane, begin,
                 std::min(l.inner, begin + together));
    });
  };
  return made;
}

Prepared prepare_selective_scan(const Graph& graph, const Node& node, const KernelOptions&) {
  const Shape x = graph.type(node.inputs[0]).shape;
  const int64_t batch = x[0], steps = x[1], channels = x[2], states = graph.type(node.inputs[2]).shape[1];
  Prepared made;
  made.kernel = node.op;
  made.run = [=](const Places& at, ThreadPool& pool) {
    const float* start = at.inputs.size() > 5 ? floats(at.inputs[5]) : nullptr;
    pool.parallel_for(batch * channels, [&](int64_t line) {
      const int64_t b = line / channels, c = line % channels;
      const float* rates = floats(at.inputs[2]) + c * states;
      float* h = floats(at.outputs[1]) + line * states;
      if (start)
        std::copy_n(start + line * states, states, h);
      else
        std::fill_n(h, states, 0.f);
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t step = b * steps + t, own = step * channels + c;
        const float dt = floats(at.inputs[1])[own], u = dt * floats(at.inputs[0])[own];
        const float *in = floats(at.inputs[3]) + step * states, *out = floats(at.inputs[4]) + step * states;
        for (int64_t n = 0; n < states; ++n) h[n] = std::exp(dt * rates[n]) * h[n] + u * in[n];
        floats(at.outputs[0])[own] = dot(out, h, static_cast<size_t>(states));
      }
    });
  };
  return made;
}

Prepared prepare_delta_rule(const Graph& graph, const Node& node, const KernelOptions&) {
  const Shape rows = graph.type(node.inputs[0]).shape;
  const int64_t steps = rows[1], heads = rows[2], values = graph.type(node.inputs[1]).shape[3];
  const int64_t lines = rows[0] * heads * values;
  const auto keys = static_cast<size_t>(rows[3] / 5);
  Prepared made;
  made.kernel = node.op;
  made.run = [=](const Places& at, ThreadPool& pool) {
    const float* start = at.inputs.size() > 2 ? floats(at.inputs[2]) : nullptr;
    pool.parallel_for(lines, [&](int64_t line) {
      const int64_t head = line / values, i = line % values;
      const auto first = static_cast<size_t>(line) * keys;
      float* m = floats(at.outputs[1]) + first;
      if (start)
        std::copy_n(start + first, keys, m);
      else
        std::fill_n(m, keys, 0.f);
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t step = (head / heads * steps + t) * heads + head % heads;
        const float* w = floats(at.inputs[0]) + static_cast<size_t>(step) * 5 * keys;
        const float *a = w + keys, *b = a + keys, *k = b + keys, *r = k + keys;
        const float v = floats(at.inputs[1])[step * values + i], seen = dot(m, a, keys);
        for (size_t j = 0; j < keys; ++j) m[j] = m[j] * w[j] + seen * b[j] + v * k[j];
        floats(at.outputs[0])[step * values + i] = dot(m, r, keys);
      }
    });
  };
  return made;
}

Prepared prepare_recurrent(const Graph& graph, const Node& node, const KernelOptions&) {
  std::vector<Shape> shapes;
  for (ValueId id : node.inputs) shapes.push_back(graph.type(id).shape);
  const RecurrentAttrs r = recurrent_attrs(node, shapes);
  Prepared made;
  made.kernel = node.op;
  made.run = [r](const Places& at, ThreadPool& pool) {
    const auto n = static_cast<size_t>(r.hidden), wide = static_cast<size_t>(r.gates) * n, kept = r.lstm ? 2 * n : n;
    const float* weight = floats(at.inputs[1]);
    pool.parallel_for(r.batch, [&](int64_t b) {
      const float* start = floats(at.inputs[2]) + static_cast<size_t>(b) * kept;
      std::vector<float> state(start, start + kept), s(wide);
      for (int64_t k = 0; k < r.steps; ++k) {
        const auto row = static_cast<size_t>(b * r.steps + (r.reverse ? r.steps - 1 - k : k));
        const float* g = floats(at.inputs[0]) + row * wide;
        if (r.bias)
          std::copy_n(weight + n * wide, wide, s.begin());
        else
          std::fill(s.begin(), s.end(), 0.f);
        for (size_t i = 0; i < n; ++i)
          for (size_t j = 0; j < wide; ++j) s[j] += state[i] * weight[i * wide + j];
        for (size_t u = 0; u < n; ++u) {
          const float first = sigmoid(g[u] + s[u]), second = sigmoid(g[n + u] + s[n + u]);
          if (r.lstm) {
            state[n + u] = second * state[n + u] + first * std::tanh(g[2 * n + u] + s[2 * n + u]);
            state[u] = sigmoid(g[3 * n + u] + s[3 * n + u]) * std::tanh(state[n + u]);
          } else {
            const float fresh = std::tanh(g[2 * n + u] + first * s[2 * n + u]);
            state[u] = fresh + second * (state[u] - fresh);
          }
        }
        std::copy(state.begin(), state.end(), floats(at.outputs[0]) + row * kept);
      }
    });
  };
  return made;
}

}  // namespace gyrus::cpu
