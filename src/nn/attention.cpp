#include <cmath>

#include "core/error.h"
#include "nn/taps.h"

namespace gyrus {
namespace {

// Heads of keys or values repeated for the query heads that read them.
Value repeated(Value x, int64_t heads) {
  const Shape s = x.shape();
  if (s[1] == heads) return x;
  return reshape(expand(reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], heads / s[1], s[2], s[3]}),
                 {s[0], heads, s[2], s[3]});
}

// Which keys queries see by their distance, [Sq, Sk].
Tensor seen_by_distance(int64_t queries, int64_t keys, const AttentionOptions& options) {
  Tensor seen(DType::Bool, {queries, keys});
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t back = i + keys - queries - j;  // how far before the query the key stands
      const bool near = !options.window || std::abs(back) < *options.window;
      seen.as<uint8_t>()[i * keys + j] = near && (!options.causal || back >= 0);
    }
  return seen;
}

// Cosines or sines [S, half] of the positions offset, offset + 1, …
Tensor table(int64_t length, int64_t half, const RopeOptions& options, bool sine) {
  Tensor t(DType::F32, {length, half});
  for (int64_t s = 0; s < length; ++s)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(options.offset + s) *
                           std::pow(options.base, -static_cast<double>(i) / static_cast<double>(half));
      set(t, s * half + i, sine ? std::sin(angle) : std::cos(angle));
    }
  return t;
}

// Angles [B, 1, S, half] of given positions.
Value angles(const RopeOptions& options, int64_t half) {
  const Value positions = options.positions;
  Tensor speeds(DType::F32, {half});
  for (int64_t i = 0; i < half; ++i)
    set(speeds, i, std::pow(options.base, -static_cast<double>(i) / static_cast<double>(half)));
  const Shape s = positions.shape();
  return reshape(cast(positions, DType::F32), {s.at(0), 1, s.at(1), 1}) * positions.graph().constant(std::move(speeds));
}

}  // namespace

Value attention(Value q, Value k, Value v, const AttentionOptions& options) {
  const Shape qs = q.shape(), ks = k.shape(), vs = v.shape();
  if (qs.size() != 4 || ks.size() != 4 || vs.size() != 4 || ks[1] == 0 || qs[1] % ks[1] != 0 || vs[1] != ks[1])
    fail(ErrorCode::InvalidGraph, "attention", "q is ", to_string(qs), ", k ", to_string(ks), ", v ", to_string(vs),
         ": expected [B, heads, length, depth], and query heads a multiple of the others");
  Graph& graph = q.graph();
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(qs[3])));
  Value scores = matmul(q, repeated(k, qs[1]), {.transpose_b = true}) * scale;
  if (options.softcap) scores = tanh(scores / *options.softcap) * *options.softcap;
  if (options.bias) scores = scores + options.bias;
  Value seen = options.mask && options.mask.dtype() != DType::Bool ? cast(options.mask, DType::Bool) : options.mask;
  if (options.causal || options.window) {
    const Value near = graph.constant(seen_by_distance(qs[2], ks[2], options));
    seen = seen ? logical_and(seen, near) : near;
  }
  if (!seen) return matmul(softmax(scores, -1), repeated(v, qs[1]));
  const Value parts = softmax(where(seen, scores, scalar(scores, -3e38)), -1);
  return matmul(where(seen, parts, scalar(parts, 0)), repeated(v, qs[1]));
}

Value rope(Value x, const RopeOptions& options) {
  const Shape shape = x.shape();
  const int64_t n = options.n_rot ? options.n_rot : shape.back();
  if (shape.size() != 4 || n % 2 != 0 || n > shape[3])
    fail(ErrorCode::InvalidGraph, "rope", "input is ", to_string(shape), " and ", n,
         " elements turn: expected [B, heads, length, depth] and an even number up to the depth");
  const int64_t half = n / 2;
  Graph& graph = x.graph();
  Value c = options.cos, s = options.sin;
  if (!c && options.positions) {
    const Value angle = angles(options, half);
    c = cos(angle);
    s = sin(angle);
  } else if (!c) {
    c = graph.constant(table(shape[2], half, options, false));
    s = graph.constant(table(shape[2], half, options, true));
  }
  const Value rest = slice_axis(x, 3, n, shape[3]);
  const Value turning = slice_axis(x, 3, 0, n);
  const auto pick = [&](int64_t which) {
    return options.interleaved ? slice_axis(turning, 3, which, n, 2)
                               : slice_axis(turning, 3, which * half, (which + 1) * half);
  };
  const Value a = pick(0), b = pick(1);
  const Value first = a * c - b * s, second = b * c + a * s;
  Value turned = concat({first, second}, 3);
  if (options.interleaved) {
    const Shape pairs = {shape[0], shape[1], shape[2], half, 1};
    turned = reshape(concat({reshape(first, pairs), reshape(second, pairs)}, 4), {shape[0], shape[1], shape[2], n});
  }
  return n == shape[3] ? turned : concat({turned, rest}, 3);
}

}  // namespace gyrus
