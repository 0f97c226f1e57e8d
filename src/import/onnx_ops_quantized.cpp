// Quantised tensors. Integer products are sums of f32 products that stay below 2^24, and therefore exact.

#include <algorithm>
#include <cmath>

#include "import/onnx_quantized.h"
#include "import/onnx_window.h"

namespace gyrus::onnx {
namespace {

struct Range {
  double least, most;
};

Range range_of(Elem elem) {
  switch (elem) {
    case Elem::U8: return {0, 255};
    case Elem::I8: return {-128, 127};
    case Elem::U16: return {0, 65535};
    case Elem::I16: return {-32768, 32767};
    case Elem::U4: return {0, 15};
    case Elem::I4: return {-8, 7};
    default: unsupported(cat("quantises to ", to_string(elem)));
  }
}

// One number, one for each element of an axis, or one for each block along it, in the shape of x.
Val along(Val p, Val x, int64_t axis_given, int64_t block) {
  if (p.size() == 1) return reshape(p, {});
  const size_t axis = axis_of(axis_given, x.rank());
  if (block == 0) {
    if (p.rank() != 1) invalid("scales are no list");
    Shape shape(x.rank(), 1);
    shape[axis] = p.size();
    return reshape(p, shape);
  }
  if (p.rank() != x.rank()) invalid("blocks of scales have another rank than the tensor");
  Shape split = p.shape(), joined = p.shape();
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  Shape repeated = split;
  repeated[axis + 1] = block;
  joined[axis] *= block;
  return slice(reshape(expand(reshape(p, split), repeated), joined), axis, 0, x.shape()[axis]);
}

Val saturated(Val x, Elem to) {
  const Range r = range_of(to);
  const Val inside = op("min", {op("max", {x, scalar(x, r.least)}), scalar(x, r.most)});
  return as(op("cast", {inside}, {{"to", gyrus::to_string(stored_as(to, "quantised"))}}), to);
}

Val rounded(Val x) { return op("round", {x}); }

Vals quantize_linear(Ctx& c) {
  const Val x = cast(c.in(0), Elem::F32);
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const int64_t named = c.integer("output_dtype", 0);
  const Elem to = c.has(2) ? c.in(2).elem : named != 0 ? static_cast<Elem>(named) : Elem::U8;
  range_of(to);
  const Val scale = along(cast(c.in(1), Elem::F32), x, axis, block);
  Val y = rounded(x / scale);
  if (c.has(2)) y = y + along(cast(c.in(2), Elem::F32), x, axis, block);
  return {saturated(y, to)};
}

// Integers of 4 or 8 bits whose scales are f32: in other types the product would be rounded again.
void remember_packed(Ctx& c, Val result, int64_t axis, int64_t block) {
  const Val x = c.in(0), scales = c.in(1), zeros = c.opt(2);
  const bool small = x.elem == Elem::I4 || x.elem == Elem::U4 || x.elem == Elem::I8 || x.elem == Elem::U8;
  const bool known = scales.is_constant() && (!zeros || (zeros.is_constant() && zeros.elem == x.elem));
  if (!small || !known || scales.elem != Elem::F32 || result.shape() != x.shape() || x.rank() != 2 ||
      (zeros && zeros.size() != scales.size()))
    return;
  const bool one = scales.size() == 1;
  c.remember(result, {x, scales, zeros, one ? 0 : axis_of(axis, 2), block, false,
                      std::make_shared<std::array<std::optional<PackedMatrix>, 2>>()});
}

Vals dequantize_linear(Ctx& c) {
  const Val x = c.in(0);
  const Elem to = c.in(1).elem;
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  Val y = cast(x, Elem::F32);
  if (c.has(2)) y = y - along(cast(c.in(2), Elem::F32), x, axis, block);
  const Val result = cast(y * along(cast(c.in(1), Elem::F32), x, axis, block), to);
  remember_packed(c, result, axis, block);
  return {result};
}

}  // namespace

Val dequantized(Val x, Val scale, Val zero) {
  const Val wide = cast(x, Elem::F32);
  return (zero ? wide - cast(zero, Elem::F32) : wide) * cast(scale, Elem::F32);
}

Val quantized(Val y, Val scale, Val zero) {
  const Val q = rounded(y / scale);
  return saturated(zero ? q + cast(zero, Elem::F32) : q, zero ? zero.elem : Elem::U8);
}

Bytewise quantized_by_range(Val x) {
  const Ints axes = gyrus::onnx::range(static_cast<int64_t>(x.rank()));
  const Val zero = scalar(x, 0);
  const Val least = op("min", {reduce("reduce_min", x, axes, false), zero}),
            most = op("max", {reduce("reduce_max", x, axes, false), zero});
  const Val scale = (most - least) / 255.0;
  const Val offset = saturated(rounded(0.0 - least / scale), Elem::U8);
  return {saturated(rounded(x / scale) + cast(offset, Elem::F32), Elem::U8), scale, offset};
}

Val centred(Val x, Val zero, const Shape& shape) {
  const Val wide = cast(x, Elem::F32);
  if (!zero) return wide;
  const Val z = cast(zero, Elem::F32);
  return wide - (z.size() == 1 ? reshape(z, {}) : z.rank() > 1 ? z : reshape(z, shape));
}

namespace {
constexpr int64_t kExact = 257;  // products of 255 · 255 that f32 sums without loss
}

Val integer_matmul(Val a, Val b) {
  const int64_t k = a.extent(-1);
  Val sum;
  for (int64_t begin = 0; begin < k; begin += kExact) {
    const int64_t end = std::min(k, begin + kExact);
    const Val part = cast(matmul(slice(a, a.rank() - 1, begin, end), slice(b, b.rank() - 2, begin, end)), Elem::I32);
    sum = sum ? sum + part : part;
  }
  return sum;
}

namespace {

Vals dynamic_quantize_linear(Ctx& c) {
  const Bytewise b = quantized_by_range(c.in(0));
  return {b.q, b.scale, b.zero};
}

Vals matmul_integer(Ctx& c) {
  const Val a = c.in(0), b = c.in(1);
  if (a.rank() < 2 || b.rank() < 2) unsupported("vectors");
  return {integer_matmul(centred(a, c.opt(2), {c.has(2) ? c.in(2).size() : 1, 1}),
                         centred(b, c.opt(3), {c.has(3) ? c.in(3).size() : 1}))};
}

Val integer_conv(Ctx& c, Val x, Val weight) {
  const Window w = window_of(c, spatial_of(weight.shape()), spatial_of(x.shape()), false);
  const int64_t groups = c.integer("group", 1), taps = element_count(spatial_of(weight.shape()));
  const int64_t channels = weight.extent(1), most = std::max<int64_t>(1, kExact / taps);
  if (channels > most && groups > 1) unsupported("groups of many channels");
  Val sum;
  for (int64_t begin = 0; begin < channels; begin += most) {
    const int64_t end = std::min(channels, begin + most);
    const Val in = channels > most ? slice(x, 1, begin, end) : x;
    const Val part =
        cast(conv(in, slice(weight, 1, begin, end), {}, w.stride, w.dilation, both(w.lo, w.pad_hi), groups), Elem::I32);
    sum = sum ? sum + part : part;
  }
  return sum;
}

Shape per_channel(size_t rank, size_t axis) {
  Shape shape(rank, 1);
  shape[axis] = -1;
  return shape;
}

Vals conv_integer(Ctx& c) {
  const Val x = c.in(0), weight = c.in(1);
  return {integer_conv(c, centred(x, c.opt(2), {}), centred(weight, c.opt(3), per_channel(weight.rank(), 0)))};
}

// The sums, scaled and rounded into the type of the zero point.
Val requantized(Val sum, Val scale, Val zero, const Shape& scale_shape) {
  const Val factor = scale.size() == 1 ? reshape(scale, {}) : reshape(scale, scale_shape);
  return saturated(rounded(cast(sum, Elem::F32) * factor) + cast(reshape(zero, {}), Elem::F32), zero.elem);
}

Vals qlinear_matmul(Ctx& c) {
  const Val a = c.in(0), b = c.in(3);
  const auto f = [&](size_t i) { return cast(c.in(i), Elem::F32); };
  const Val sum = integer_matmul(centred(a, c.in(2), {c.in(2).size(), 1}), centred(b, c.in(5), {c.in(5).size()}));
  if (c.in(6).size() != 1 || c.in(1).size() != 1) unsupported("a scale for each row");
  return {requantized(sum, reshape(f(1), {}) * f(4) / reshape(f(6), {}), c.in(7), {-1})};
}

Vals qlinear_conv(Ctx& c) {
  const Val x = c.in(0), weight = c.in(3);
  const auto f = [&](size_t i) { return cast(c.in(i), Elem::F32); };
  Val sum = integer_conv(c, centred(x, c.in(2), {}), centred(weight, c.in(5), per_channel(weight.rank(), 0)));
  const Shape channels = per_channel(x.rank(), 1);
  if (c.has(8)) sum = sum + reshape(c.in(8), channels);
  return {requantized(sum, reshape(f(1), {}) * f(4) / reshape(f(6), {}), c.in(7), channels)};
}

}  // namespace

void add_quantized_ops(OpTable& t) {
  t["QuantizeLinear"] = quantize_linear;
  t["DequantizeLinear"] = dequantize_linear;
  t["DynamicQuantizeLinear"] = dynamic_quantize_linear;
  t["MatMulInteger"] = matmul_integer;
  t["ConvInteger"] = conv_integer;
  t["QLinearMatMul"] = qlinear_matmul;
  t["QLinearConv"] = qlinear_conv;
}

}  // namespace gyrus::onnx
