#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/tensor.h"
#include "nn/taps.h"
#include "ops/building.h"

// Pooling, interpolation and transposed convolution, axis by axis where they are separable.

namespace gyrus {
namespace {

// Windows along one spatial axis.
struct AxisWindow {
  int64_t in = 0, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0, out = 0;
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  int64_t start(int64_t i) const { return i * stride - before; }
};

int64_t nth(const std::vector<int64_t>& list, size_t i, int64_t fallback) {
  return list.empty() ? fallback : list.at(i);
}

std::vector<AxisWindow> axis_windows(const Shape& shape, const Windows& w, const char* op) {
  const size_t rank = shape.size() - std::min<size_t>(2, shape.size());
  if (shape.size() < 3 || w.kernel.size() != rank || (!w.stride.empty() && w.stride.size() != rank) ||
      (!w.dilation.empty() && w.dilation.size() != rank) || (!w.pads.empty() && w.pads.size() != 2 * rank))
    fail(ErrorCode::InvalidGraph, op, "kernel, stride, dilation and pads do not fit a map ", to_string(shape));
  std::vector<AxisWindow> all;
  for (size_t a = 0; a < rank; ++a) {
    AxisWindow axis{shape[a + 2],          w.kernel[a],       nth(w.stride, a, 1),
                    nth(w.dilation, a, 1), nth(w.pads, a, 0), nth(w.pads, a + rank, 0)};
    if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.before < 0 || axis.after < 0)
      fail(ErrorCode::InvalidGraph, op, "kernel, stride and dilation are 1 or more and pads 0 or more");
    const int64_t room = axis.in + axis.before + axis.after - axis.reach();
    if (room < 0)
      fail(ErrorCode::InvalidGraph, op, "a window of ", axis.reach(), " does not fit an axis of ", axis.in,
           " with pads");
    axis.out = (w.ceil_mode ? ceil_div(room, axis.stride) : room / axis.stride) + 1;
    if (w.ceil_mode && (axis.out - 1) * axis.stride >= axis.in + axis.before) --axis.out;
    all.push_back(axis);
  }
  return all;
}

// x with so many elements of `fill` in front and enough behind for every window.
Value padded(Value x, size_t axis, const AxisWindow& w, double fill) {
  const int64_t end = (w.out - 1) * w.stride + w.reach() - w.before;  // behind the last element that is read
  const int64_t after = std::max<int64_t>(0, end - w.in);
  if (w.before == 0 && after == 0) return x;
  std::vector<int64_t> pads(2 * x.shape().size(), 0);
  pads[axis] = w.before;
  pads[axis + x.shape().size()] = after;
  return pad(x, pads, fill);
}

// Element t of every window.
Value tap(Value x, size_t axis, const AxisWindow& w, int64_t t) {
  const int64_t first = t * w.dilation;
  return slice_axis(x, axis, first, first + (w.out - 1) * w.stride + 1, w.stride);
}

// The element that none is smaller than.
double lowest(DType dtype) {
  if (dtype == DType::F32) return -3.4028234663852886e38;
  if (dtype == DType::F16) return -65504;
  return dtype == DType::I32 || dtype == DType::I64 ? std::numeric_limits<int32_t>::min() : 0;
}

Value summed(Value x, const std::vector<AxisWindow>& all) {
  for (size_t a = all.size(); a-- > 0;) {
    const Value wide = padded(x, a + 2, all[a], 0);
    x = tap(wide, a + 2, all[a], 0);
    for (int64_t t = 1; t < all[a].kernel; ++t) x = x + tap(wide, a + 2, all[a], t);
  }
  return x;
}

// How many cells of each window count.
std::vector<double> counts(const AxisWindow& w, bool with_padding) {
  std::vector<double> all;
  for (int64_t i = 0; i < w.out; ++i) {
    double count = 0;
    for (int64_t t = 0; t < w.kernel; ++t) {
      const int64_t at = w.start(i) + t * w.dilation;
      count += with_padding ? at < w.in + w.after : at >= 0 && at < w.in;
    }
    all.push_back(count);
  }
  return all;
}

Taps adaptive_taps(int64_t in, int64_t out) {
  Taps taps;
  int64_t longest = 0;
  const auto begin = [&](int64_t i) { return i * in / out; };
  const auto end = [&](int64_t i) { return ceil_div((i + 1) * in, out); };
  for (int64_t i = 0; i < out; ++i) longest = std::max(longest, end(i) - begin(i));
  for (int64_t t = 0; t < longest; ++t) {
    std::vector<int64_t> positions;
    std::vector<double> weights;
    for (int64_t i = 0; i < out; ++i) {
      positions.push_back(std::min(begin(i) + t, end(i) - 1));
      weights.push_back(begin(i) + t < end(i) ? 1 / static_cast<double>(end(i) - begin(i)) : 0);
    }
    taps.positions.push_back(std::move(positions));
    taps.weights.push_back(std::move(weights));
  }
  return taps;
}

void check_size(Value x, const std::vector<int64_t>& size, const char* op) {
  if (!x || x.shape().size() != size.size() + 2)
    fail(ErrorCode::InvalidGraph, op, "the size has ", size.size(), " numbers, expected one for each spatial axis of ",
         x ? to_string(x.shape()) : "nothing");
}

// Keys' kernel.
double cubic(double x) {
  constexpr double kA = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? kA * (((x - 5) * x + 8) * x - 4) : 0;
}

Taps interpolation_taps(int64_t in, int64_t out, double step, const InterpolateOptions& options) {
  const Interpolation mode = options.mode;
  const int taps_count = mode == Interpolation::Cubic ? 4 : mode == Interpolation::Linear ? 2 : 1;
  Taps taps;
  taps.positions.resize(static_cast<size_t>(taps_count));
  taps.weights.resize(static_cast<size_t>(taps_count));
  const auto put = [&](size_t t, double position, double weight) {
    taps.positions[t].push_back(std::clamp<int64_t>(static_cast<int64_t>(position), 0, in - 1));
    taps.weights[t].push_back(weight);
  };
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<double>(i);
    if (taps_count == 1) {
      put(0, std::floor(mode == Interpolation::Nearest ? at * step : (at + 0.5) * step), 1);
      continue;
    }
    double source = (at + 0.5) * step - 0.5;
    if (options.align_corners)
      source = out == 1 ? 0 : at * static_cast<double>(in - 1) / static_cast<double>(out - 1);
    else if (mode == Interpolation::Linear)
      source = std::max(source, 0.0);
    const double first = std::floor(source), part = source - first;
    if (mode == Interpolation::Linear) {
      put(0, first, 1 - part);
      put(1, first + 1, part);
    } else {
      for (int t = 0; t < 4; ++t) put(static_cast<size_t>(t), first - 1 + t, cubic(part + 1 - t));
    }
  }
  return taps;
}

}  // namespace

Value max_pool(Value x, const Windows& windows) {
  const std::vector<AxisWindow> all = axis_windows(x.shape(), windows, "max_pool");
  for (size_t a = all.size(); a-- > 0;) {
    const Value wide = padded(x, a + 2, all[a], lowest(x.dtype()));
    x = tap(wide, a + 2, all[a], 0);
    for (int64_t t = 1; t < all[a].kernel; ++t) x = max(x, tap(wide, a + 2, all[a], t));
  }
  return x;
}

Value sum_pool(Value x, const Windows& windows) { return summed(x, axis_windows(x.shape(), windows, "sum_pool")); }

Value avg_pool(Value x, const Windows& windows, bool count_include_pad) {
  const std::vector<AxisWindow> all = axis_windows(x.shape(), windows, "avg_pool");
  x = summed(x, all);
  double common = 1;  // of all axes whose windows are alike
  for (size_t a = 0; a < all.size(); ++a) {
    std::vector<double> shares = counts(all[a], count_include_pad);
    for (double& count : shares) count = 1 / std::max(count, 1.0);
    if (std::all_of(shares.begin(), shares.end(), [&](double share) { return share == shares[0]; }))
      common *= shares[0];
    else
      x = x * along_axis(x, a + 2, shares);
  }
  return x * common;
}

Value adaptive_max_pool(Value x, const std::vector<int64_t>& size) {
  check_size(x, size, "adaptive_max_pool");
  for (size_t a = 0; a < size.size(); ++a) x = largest(x, a + 2, adaptive_taps(x.shape()[a + 2], size[a]));
  return x;
}

Value adaptive_avg_pool(Value x, const std::vector<int64_t>& size) {
  check_size(x, size, "adaptive_avg_pool");
  for (size_t a = 0; a < size.size(); ++a) x = weighted(x, a + 2, adaptive_taps(x.shape()[a + 2], size[a]));
  return x;
}

Value im2col(Value x, const Windows& windows) {
  const Shape shape = x.shape();
  const std::vector<AxisWindow> w = axis_windows(shape, windows, "im2col");
  if (w.size() != 2) fail(ErrorCode::InvalidGraph, "im2col", "input is ", to_string(shape), ", expected [N,C,H,W]");
  const Value wide = padded(padded(x, 2, w[0], 0), 3, w[1], 0);
  std::vector<Value> columns;
  for (int64_t i = 0; i < w[0].kernel; ++i)
    for (int64_t j = 0; j < w[1].kernel; ++j) columns.push_back(tap(tap(wide, 2, w[0], i), 3, w[1], j));
  return reshape(stack(columns, 2), {shape[0], shape[1] * w[0].kernel * w[1].kernel, w[0].out * w[1].out});
}

Value fold(Value x, const std::vector<int64_t>& size, const Windows& windows) {
  const size_t rank = size.size();
  if (rank < 1 || x.shape().size() != 3 || windows.kernel.size() != rank)
    fail(ErrorCode::InvalidGraph, "fold", "expected [N, C times the kernel, positions] and a size for each axis of it");
  const int64_t cells = element_count(windows.kernel), batch = x.shape()[0];
  Shape map = {batch, x.shape()[1] / std::max<int64_t>(1, cells)}, apart = {batch, map[1], cells}, part_shape = map;
  map.insert(map.end(), size.begin(), size.end());
  const std::vector<AxisWindow> w = axis_windows(map, windows, "fold");
  for (const AxisWindow& axis : w) {
    apart.push_back(axis.out);
    part_shape.push_back(axis.out);
  }
  const Value columns = reshape(x, apart);
  Value sum;
  for (int64_t cell = 0; cell < cells; ++cell) {
    Value part = reshape(slice_axis(columns, 2, cell, cell + 1), part_shape);
    std::vector<int64_t> pads(2 * (rank + 2), 0);
    int64_t rest = cell;
    for (size_t a = rank; a-- > 0; rest /= w[a].kernel) {
      part = spread(part, a + 2, w[a].stride);
      pads[a + 2] = rest % w[a].kernel * w[a].dilation;
      pads[a + rank + 4] = w[a].in + w[a].before + w[a].after - pads[a + 2] - part.shape()[a + 2];
    }
    part = pad(part, pads);
    sum = sum ? sum + part : part;
  }
  for (size_t a = 0; a < rank; ++a) sum = slice_axis(sum, a + 2, w[a].before, w[a].before + w[a].in);
  return sum;
}

Value conv_transpose(Value x, Value weight, const ConvTransposeOptions& options) {
  Attrs attrs{{"groups", options.groups}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (!options.pads.empty()) attrs.set("pads", options.pads);
  if (!options.output_padding.empty()) attrs.set("output_padding", options.output_padding);
  return apply("conv_transpose", {x, weight, options.bias}, std::move(attrs));
}

Value interpolate(Value x, const std::vector<int64_t>& size, const InterpolateOptions& options) {
  check_size(x, size, "interpolate");
  for (size_t a = 0; a < size.size(); ++a) {
    const int64_t in = x.shape()[a + 2];
    const double ratio = static_cast<double>(in) / static_cast<double>(size[a]);
    const double step = options.scale.empty() ? ratio : 1 / options.scale.at(a);
    // PyTorch interpolates linearly only between extents that differ, whatever the scale.
    if (in == size[a] && (step == 1 || options.mode == Interpolation::Linear)) continue;
    x = weighted(x, a + 2, interpolation_taps(in, size[a], step, options));
  }
  return x;
}

}  // namespace gyrus
