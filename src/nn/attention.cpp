#include <cmath>

#include "core/error.h"
#include "nn/taps.h"

namespace gyrus {
namespace {

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
  const Value mask =
      options.mask && options.mask.dtype() != DType::Bool ? cast(options.mask, DType::Bool) : options.mask;
  Attrs attrs{{"causal", int64_t{options.causal}}};
  if (options.window) attrs.set("window", *options.window);
  if (options.scale) attrs.set("scale", *options.scale);
  if (options.softcap) attrs.set("softcap", *options.softcap);
  return apply("attention", {q, k, v, mask, options.bias}, std::move(attrs));
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
