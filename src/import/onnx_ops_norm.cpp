// Norms.

#include <algorithm>

#include "import/onnx_norm.h"

namespace gyrus::onnx {
namespace {

// Whether the op that is one kernel can stand for the parts: singles, with parameters of the extents that are normed.
bool is_plain(Val x, size_t axis, std::initializer_list<Val> parameters) {
  const Shape shape = x.shape(), rows(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
  return x.elem == Elem::F32 && !rows.empty() && std::all_of(parameters.begin(), parameters.end(), [&](const Val& p) {
           return !p || (p.elem == Elem::F32 && p.shape() == rows);
         });
}

Attrs norm_attrs(size_t axis, double eps) { return {{"axis", static_cast<int64_t>(axis)}, {"eps", eps}}; }

}  // namespace

Normed layer_norm(Val x, size_t axis, double eps, Val scale, Val bias) {
  const Elem elem = x.elem;
  const Val wide = cast(x, Elem::F32);
  Ints axes;
  for (size_t a = axis; a < x.rank(); ++a) axes.push_back(static_cast<int64_t>(a));
  const Val mean = reduce("reduce_mean", wide, axes, true);
  const Val centred = wide - mean;
  const Val inverse = op("rsqrt", {reduce("reduce_mean", op("square", {centred}), axes, true) + eps});
  // What of the parts nobody reads is dropped.
  if (is_plain(x, axis, {scale, bias}))
    return {op("layer_norm", {x, scale, bias}, norm_attrs(axis, eps)), mean, inverse};
  Val y = cast(centred * inverse, elem);
  if (scale) y = y * scale;
  if (bias) y = y + bias;
  return {y, mean, inverse};
}

Val rms_norm(Val x, size_t axis, double eps, Val scale) {
  if (is_plain(x, axis, {scale})) return op("rms_norm", {x, scale}, norm_attrs(axis, eps));
  const Elem elem = x.elem;
  const Val wide = cast(x, Elem::F32);
  Ints axes;
  for (size_t a = axis; a < x.rank(); ++a) axes.push_back(static_cast<int64_t>(a));
  const Val inverse = op("rsqrt", {reduce("reduce_mean", op("square", {wide}), axes, true) + eps});
  const Val y = cast(wide * inverse, elem);
  return scale ? y * scale : y;
}

namespace {

Vals layer_normalization(Ctx& c) {
  const Val x = c.in(0);
  const Normed n =
      layer_norm(x, axis_of(c.integer("axis", -1), x.rank()), c.number("epsilon", 1e-5), c.in(1), c.opt(2));
  return {n.y, n.mean, n.inverse};
}

Vals rms_normalization(Ctx& c) {
  const Val x = c.in(0);
  return {rms_norm(x, axis_of(c.integer("axis", -1), x.rank()), c.number("epsilon", 1e-5), c.in(1))};
}

Vals group_normalization(Ctx& c) {
  const Val x = c.in(0);
  const int64_t groups = c.integer("num_groups"), channels = x.extent(1);
  if (groups < 1 || channels % groups != 0) invalid("groups do not divide the channels");
  Val scale = c.in(1), bias = c.in(2);
  if (c.opset() < 21)  // one number a group
    for (Val* v : {&scale, &bias})
      *v = reshape(expand(reshape(*v, {groups, 1}), {groups, channels / groups}), {channels});
  return {op("group_norm", {x, scale, bias}, {{"groups", groups}, {"eps", c.number("epsilon", 1e-5)}})};
}

Vals instance_normalization(Ctx& c) {
  return {op("instance_norm", {c.in(0), c.in(1), c.in(2)}, {{"eps", c.number("epsilon", 1e-5)}})};
}

Vals batch_normalization(Ctx& c) {
  const Val x = c.in(0), scale = c.in(1), bias = c.in(2), mean = c.in(3), variance = c.in(4);
  const double eps = c.number("epsilon", 1e-5);
  if (c.opset() < 9 && c.integer("spatial", 1) == 0) unsupported("spatial = 0");
  const bool training = c.opset() >= 14 ? c.integer("training_mode", 0) != 0
                        : c.opset() < 7 ? c.integer("is_test", 0) == 0 && c.wants(1)
                                        : c.wants(1);
  if (!training) return {op("batch_norm", {x, mean, variance, scale, bias}, {{"eps", eps}})};
  if (c.opset() < 14) unsupported("training mode before opset 14");
  Ints axes{0};
  for (size_t a = 2; a < x.rank(); ++a) axes.push_back(static_cast<int64_t>(a));
  const Val own = reduce("reduce_mean", x, axes, true);
  const Val spread = reduce("reduce_mean", op("square", {x - own}), axes, true);
  Shape along(x.rank(), 1);
  along[1] = x.extent(1);
  const Val y = (x - own) * op("rsqrt", {spread + eps}) * reshape(scale, along) + reshape(bias, along);
  const double keep = c.number("momentum", 0.9);
  const Shape flat = {x.extent(1)};
  return {y, mean * keep + reshape(own, flat) * (1 - keep), variance * keep + reshape(spread, flat) * (1 - keep)};
}

Vals lp_normalization(Ctx& c) {
  const Val x = c.in(0);
  const int64_t axis = static_cast<int64_t>(axis_of(c.integer("axis", -1), x.rank())), p = c.integer("p", 2);
  if (p != 1 && p != 2) invalid("p is neither 1 nor 2");
  const Val norm = p == 1 ? reduce("reduce_sum", op("abs", {x}), {axis}, true)
                          : op("sqrt", {reduce("reduce_sum", op("square", {x}), {axis}, true)});
  // Zeros stay zeros.
  return {x / op("where", {op("equal", {norm, scalar(norm, 0)}), scalar(norm, 1), norm})};
}

Vals local_response_norm(Ctx& c) {
  const Val x = c.in(0);
  const int64_t size = c.integer("size"), channels = x.extent(1), before = (size - 1) / 2;
  if (size < 1 || size > (1 << 20)) invalid("size is beyond reason");
  Ints pads(2 * x.rank(), 0);
  pads[1] = before;
  pads[1 + x.rank()] = size - 1 - before;
  const Val wide = pad(op("square", {x}), pads);
  Val sum;
  for (int64_t k = 0; k < size; ++k) {
    const Val part = slice(wide, 1, k, k + channels);
    sum = sum ? sum + part : part;
  }
  const Val base = sum * (c.number("alpha", 1e-4) / static_cast<double>(size)) + c.number("bias", 1);
  return {x / op("pow", {base, scalar(base, c.number("beta", 0.75))})};
}

Vals mean_variance_normalization(Ctx& c) {
  const Val x = c.in(0);
  const Ints axes = axes_of(c.list("axes", {0, 2, 3}), x.rank());
  const Val centred = x - reduce("reduce_mean", x, axes, true);
  return {centred / (op("sqrt", {reduce("reduce_mean", op("square", {centred}), axes, true)}) + 1e-9)};
}

}  // namespace

void add_norm_ops(OpTable& t) {
  t["LayerNormalization"] = layer_normalization;
  t["RMSNormalization"] = rms_normalization;
  t["GroupNormalization"] = group_normalization;
  t["InstanceNormalization"] = instance_normalization;
  t["BatchNormalization"] = batch_normalization;
  t["LpNormalization"] = lp_normalization;
  t["LRN"] = local_response_norm;
  t["MeanVarianceNormalization"] = mean_variance_normalization;
}

}  // namespace gyrus::onnx
