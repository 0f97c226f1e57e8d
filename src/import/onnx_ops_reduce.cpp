// Reductions, running sums and what is made of them.

#include <cmath>
#include <limits>

#include "gyrus/nn.h"
#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

struct Reduction {
  Val x;
  Ints axes;  // none: nothing is reduced
  bool keepdims = true;
  Elem elem = Elem::F32;  // of the result
};

Reduction reduction_of(Ctx& c) {
  Reduction r;
  r.x = c.in(0);
  r.elem = r.x.elem;
  if (r.x.dtype() == DType::U8 || r.x.dtype() == DType::Bool) r.x = cast(r.x, Elem::I32);
  r.keepdims = c.integer("keepdims", 1) != 0;
  std::optional<Ints> axes = c.list_or_input("axes", 1);
  if (axes && axes->empty()) axes.reset();
  if (axes)
    r.axes = axes_of(*axes, r.x.rank());
  else if (c.integer("noop_with_empty_axes", 0) == 0)
    r.axes = range(static_cast<int64_t>(r.x.rank()));
  return r;
}

Shape reduced_shape(const Reduction& r) {
  Shape shape;
  size_t next = 0;
  for (size_t a = 0; a < r.x.rank(); ++a) {
    const bool reduced = next < r.axes.size() && r.axes[next] == static_cast<int64_t>(a);
    if (reduced) ++next;
    if (!reduced) shape.push_back(r.x.shape()[a]);
    if (reduced && r.keepdims) shape.push_back(1);
  }
  return shape;
}

// `empty` is the result of no elements at all.
Val apply(const Reduction& r, const char* name, Val x, double empty) {
  if (r.axes.empty()) return x;
  for (const int64_t axis : r.axes)
    if (x.shape()[static_cast<size_t>(axis)] == 0) return filled(x, reduced_shape(r), empty);
  return reduce(name, x, r.axes, r.keepdims);
}

Vals done(const Reduction& r, Val x) { return {cast(x, r.elem)}; }

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Vals reduce_sum(Ctx& c) {
  const Reduction r = reduction_of(c);
  return done(r, apply(r, "reduce_sum", r.x, 0));
}

Vals reduce_mean(Ctx& c) {
  const Reduction r = reduction_of(c);
  if (is_float(r.x)) return done(r, apply(r, "reduce_mean", r.x, std::nan("")));
  const Val sum = apply(r, "reduce_sum", r.x, 0);
  return done(r, sum / (static_cast<double>(r.x.size()) / static_cast<double>(sum.size())));
}

template <bool kLargest>
Vals reduce_most(Ctx& c) {
  const Reduction r = reduction_of(c);
  if (r.elem == Elem::Bool)
    return {cast(apply(r, kLargest ? "reduce_max" : "reduce_min", r.x, kLargest ? 0 : 1), Elem::Bool)};
  return done(r, apply(r, kLargest ? "reduce_max" : "reduce_min", r.x, kLargest ? -kInfinity : kInfinity));
}

Vals reduce_prod(Ctx& c) {
  const Reduction r = reduction_of(c);
  return done(r, apply(r, "reduce_prod", r.x, 1));
}

Vals reduce_l1(Ctx& c) {
  const Reduction r = reduction_of(c);
  return done(r, apply(r, "reduce_sum", r.x.dtype() == DType::U32 ? r.x : op("abs", {r.x}), 0));
}

Vals reduce_l2(Ctx& c) {
  const Reduction r = reduction_of(c);
  const Val x = is_float(r.x) ? r.x : cast(r.x, Elem::F32);
  return done(r, op("sqrt", {apply(r, "reduce_sum", op("square", {x}), 0)}));
}

Vals reduce_sum_square(Ctx& c) {
  const Reduction r = reduction_of(c);
  return done(r, apply(r, "reduce_sum", op("square", {r.x}), 0));
}

Vals reduce_log_sum(Ctx& c) {
  const Reduction r = reduction_of(c);
  const Val x = is_float(r.x) ? r.x : cast(r.x, Elem::F32);
  return done(r, op("log", {apply(r, "reduce_sum", x, 0)}));
}

Vals reduce_log_sum_exp(Ctx& c) {
  Reduction r = reduction_of(c);
  const Val x = is_float(r.x) ? r.x : cast(r.x, Elem::F32);
  if (r.axes.empty()) return done(r, x);
  for (const int64_t axis : r.axes)
    if (x.shape()[static_cast<size_t>(axis)] == 0) return done(r, filled(x, reduced_shape(r), -kInfinity));
  const Val y = built({x}, [&](const Values& v) { return log_sum_exp(v[0], {r.axes, true}); });
  return done(r, reshape(y, reduced_shape(r)));
}

template <bool kSum>
Vals running(Ctx& c) {
  const Val x = c.in(0);
  const size_t axis = axis_of(whole(c.known_number(1)), x.rank());
  return {op(kSum ? "cumsum" : "cumprod", {x},
             {{"axis", static_cast<int64_t>(axis)},
              {"exclusive", c.integer("exclusive", 0)},
              {"reverse", c.integer("reverse", 0)}})};
}

// Before opset 13 the tensor is taken as a matrix whose columns begin at the axis.
template <bool kLog>
Vals softmax_node(Ctx& c) {
  const Val x = c.in(0);
  const Shape shape = x.shape();
  const size_t axis = axis_of(c.integer("axis", c.opset() < 13 ? 1 : -1), x.rank());
  const auto apply_to = [](Val v, int64_t a) { return kLog ? log_softmax(v, a) : softmax(v, a); };
  if (x.size() == 0) return {x};
  if (c.opset() >= 13) return {apply_to(x, static_cast<int64_t>(axis))};
  const Shape front(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return {reshape(apply_to(reshape(x, {element_count(front), -1}), 1), shape)};
}

}  // namespace

void add_reduce_ops(OpTable& t) {
  t["ReduceSum"] = reduce_sum;
  t["ReduceMean"] = reduce_mean;
  t["ReduceMax"] = reduce_most<true>;
  t["ReduceMin"] = reduce_most<false>;
  t["ReduceProd"] = reduce_prod;
  t["ReduceL1"] = reduce_l1;
  t["ReduceL2"] = reduce_l2;
  t["ReduceSumSquare"] = reduce_sum_square;
  t["ReduceLogSum"] = reduce_log_sum;
  t["ReduceLogSumExp"] = reduce_log_sum_exp;
  t["CumSum"] = running<true>;
  t["CumProd"] = running<false>;
  t["Softmax"] = softmax_node<false>;
  t["LogSoftmax"] = softmax_node<true>;
}

}  // namespace gyrus::onnx
