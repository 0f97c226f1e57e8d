// Pools: the elements of each window as strided slices of the padded input, one for each tap.

#include <cmath>
#include <limits>

#include "core/tensor.h"
#include "gyrus/nn.h"
#include "import/onnx_window.h"

namespace gyrus::onnx {
namespace {

constexpr int64_t kMostTaps = 16384;

// What every window sees at one tap: `padded` from lo on, [N, C, windows…].
Val at_tap(Val padded, const Window& w, const Ints& tap) {
  const size_t rank = tap.size();
  Ints starts(rank + 2, 0), ends = padded.shape(), steps(rank + 2, 1);
  for (size_t a = 0; a < rank; ++a) {
    starts[a + 2] = tap[a] * w.dilation[a];
    ends[a + 2] = starts[a + 2] + (w.out[a] - 1) * w.stride[a] + 1;
    steps[a + 2] = w.stride[a];
  }
  return op("slice", {padded}, {{"starts", starts}, {"ends", ends}, {"steps", steps}});
}

// Calls visit(tap) for every tap of the kernel in row-major order.
template <class Visit>
void each_tap(const Ints& kernel, Visit visit) {
  Ints tap(kernel.size(), 0);
  for (;;) {
    visit(tap);
    size_t a = kernel.size();
    while (a > 0 && ++tap[a - 1] == kernel[a - 1]) tap[--a] = 0;
    if (a == 0) return;
  }
}

Windows as_windows(const Ctx& c, const Window& w) {
  return {w.kernel, w.stride, w.dilation, both(w.lo, w.pad_hi), c.integer("ceil_mode", 0) != 0};
}

// The element that any other is larger than.
double lowest(Val x) {
  switch (x.elem) {
    case Elem::F16: return -65504;
    case Elem::I8: return -128;
    case Elem::I32:
    case Elem::I64: return std::numeric_limits<int32_t>::min();
    case Elem::U8: return 0;
    default: return -static_cast<double>(std::numeric_limits<float>::max());
  }
}

Window pool_window(Ctx& c, Val x) {
  if (x.rank() < 3) invalid(cat("pools ", gyrus::to_string(x.shape())));
  int64_t taps = 1;
  for (const int64_t k : c.list("kernel_shape")) taps = checked_mul(taps, k, "kernel_shape");
  if (taps > kMostTaps) unsupported(cat("a window of ", taps, " elements"));
  return window_of(c, c.list("kernel_shape"), spatial_of(x.shape()), c.integer("ceil_mode", 0) != 0);
}

// The place of every element of a plane in the flat tensor, counted as the attribute says.
Val places(Ctx& c, Val x) {
  const Shape shape = x.shape();
  const bool column_major = c.integer("storage_order", 0) != 0;
  const int64_t plane = element_count(spatial_of(shape)), planes = shape[0] * shape[1];
  const Ints spatial = spatial_of(shape);
  Ints at(static_cast<size_t>(listed(plane * planes)));
  for (int64_t i = 0; i < plane; ++i) {
    int64_t place = i;
    if (column_major) {
      Ints index(spatial.size());
      int64_t rest = i;
      for (size_t a = spatial.size(); a-- > 0; rest /= spatial[a]) index[a] = rest % spatial[a];
      place = 0;
      for (size_t a = spatial.size(); a-- > 0;) place = place * spatial[a] + index[a];
    }
    for (int64_t p = 0; p < planes; ++p) at[static_cast<size_t>(p * plane + i)] = p * plane + place;
  }
  return indices(c.graph(), shape, at);
}

Vals max_pool(Ctx& c) {
  Val x = c.in(0);
  const Elem elem = x.elem;
  if (x.dtype() == DType::U8) x = cast(x, Elem::I32);
  const Window w = pool_window(c, x);
  if (!c.wants(1))
    return {cast(built({x}, [&](const auto& v) { return gyrus::max_pool(v[0], as_windows(c, w)); }), elem)};
  const Val padded = pad(x, full_pads(w.lo, w.hi), lowest(c.in(0)));
  const Val at = pad(places(c, x), full_pads(w.lo, w.hi), 0);
  Val best, place;
  each_tap(w.kernel, [&](const Ints& tap) {
    const Val value = at_tap(padded, w, tap), index = at_tap(at, w, tap);
    if (!best) {
      best = value;
      place = index;
      return;
    }
    const Val more = op("greater", {value, best});
    place = where(more, index, place);
    best = op("max", {best, value});
  });
  return {cast(best, elem), cast(place, Elem::I64)};
}

}  // namespace

Val average_pooled(Ctx& c, Val x) {
  const Window w = pool_window(c, x);
  const bool include_pad = c.integer("count_include_pad", 0) != 0;
  return built({x}, [&](const auto& v) { return avg_pool(v[0], as_windows(c, w), include_pad); });
}

namespace {

Val to_power(Val x, int64_t p) {
  if (p == 1) return op("abs", {x});
  if (p == 2) return op("square", {x});
  return op("pow", {op("abs", {x}), scalar(x, static_cast<double>(p))});
}

Val root(Val x, int64_t p) {
  if (p == 1) return x;
  if (p == 2) return op("sqrt", {x});
  return op("pow", {x, scalar(x, 1.0 / static_cast<double>(p))});
}

Vals lp_pool(Ctx& c) {
  const Val x = c.in(0);
  const Window w = pool_window(c, x);
  const int64_t p = c.opset() < 2 ? static_cast<int64_t>(c.number("p", 2)) : c.integer("p", 2);
  const Val sum = built({to_power(x, p)}, [&](const auto& v) { return sum_pool(v[0], as_windows(c, w)); });
  return {root(sum, p)};
}

Ints spatial_axes(Val x) {
  Ints axes;
  for (size_t a = 2; a < x.rank(); ++a) axes.push_back(static_cast<int64_t>(a));
  return axes;
}

Vals global_lp_pool(Ctx& c) {
  const Val x = c.in(0);
  const int64_t p = c.integer("p", 2);
  return {root(reduce("reduce_sum", to_power(x, p), spatial_axes(x), true), p)};
}

// Elements put back to the places that a pool took them from.
Vals max_unpool(Ctx& c) {
  const Val x = c.in(0);
  const Ints spatial = spatial_of(x.shape()), kernel = c.list("kernel_shape");
  const size_t rank = spatial.size();
  const Ints stride = c.list("strides", Ints(rank, 1)), pads = c.list("pads", Ints(2 * rank, 0));
  if (kernel.size() != rank || stride.size() != rank || pads.size() != 2 * rank)
    invalid("the kernel does not suit the rank");
  Shape inferred = {x.extent(0), x.extent(1)};
  for (size_t a = 0; a < rank; ++a)
    inferred.push_back((spatial[a] - 1) * sized(stride[a]) - pads[a] - pads[a + rank] + kernel.at(a));
  if (c.has(2) && c.known_ints(2) != inferred)
    unsupported(
        "output_shape differs from what the pool came from, and indices of which of the two are meant is disputed");
  const Val flat = filled(x, {element_count(inferred)}, 0);
  const Val at = reshape(cast(c.in(1), Elem::I32), {x.size()});
  return {reshape(op("scatter_elements", {flat, at, reshape(x, {x.size()})}, {{"axis", int64_t{0}}}), inferred)};
}

}  // namespace

void add_pool_ops(OpTable& t) {
  t["MaxPool"] = max_pool;
  t["AveragePool"] = [](Ctx& c) { return Vals{average_pooled(c, c.in(0))}; };
  t["LpPool"] = lp_pool;
  t["GlobalAveragePool"] = [](Ctx& c) { return Vals{reduce("reduce_mean", c.in(0), spatial_axes(c.in(0)), true)}; };
  t["GlobalMaxPool"] = [](Ctx& c) { return Vals{reduce("reduce_max", c.in(0), spatial_axes(c.in(0)), true)}; };
  t["GlobalLpPool"] = global_lp_pool;
  t["MaxUnpool"] = max_unpool;
}

}  // namespace gyrus::onnx
