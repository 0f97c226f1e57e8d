// Fourier transforms, windows and mel filters.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

// Transforms are computed in singles.
Val in_singles(Val x) { return x.dtype() == DType::F32 ? x : cast(x, Elem::F32); }
Val like(Val y, Val x) { return y.elem == x.elem ? y : x.dtype() == DType::F32 ? as(y, x.elem) : cast(y, x.elem); }

// [..., 1] or [..., 2] as complex numbers.
Val complex(Val x) {
  if (x.extent(-1) == 2) return x;
  if (x.extent(-1) != 1) invalid(cat("the last axis has ", x.extent(-1), " elements; expected 1 or 2"));
  Ints pads(2 * x.rank(), 0);
  pads.back() = 1;
  return pad(x, pads);
}

// Along an axis that is not the last one, which holds the parts; real numbers where `onesided` and only they are given.
Val transformed(Val x, size_t axis, int64_t n, bool inverse, bool onesided) {
  const auto along = [&](Val v, const char* kind) {
    return op("fft", {v},
              {{"axis", static_cast<int64_t>(axis)}, {"n", n}, {"inverse", int64_t{inverse}}, {"kind", kind}});
  };
  if (onesided && inverse) return unsqueeze(along(complex(x), "half"), x.rank() - 1);
  if (onesided && x.extent(-1) == 1) return along(squeeze(x, x.rank() - 1), "real");
  const Val y = along(complex(x), "complex");
  return onesided ? slice(y, axis, 0, n / 2 + 1) : y;
}

Vals dft(Ctx& c) {
  const Val x = in_singles(c.in(0));
  const bool inverse = c.integer("inverse", 0) != 0, onesided = c.integer("onesided", 0) != 0;
  const int64_t given = c.opset() >= 20 ? (c.has(2) ? whole(c.known_number(2)) : -2) : c.integer("axis", 1);
  const size_t axis = axis_of(given, x.rank()), last = x.rank() - 1;
  if (axis == last) invalid("transforms the axis of real and imaginary parts");
  const int64_t n = c.has(1)              ? sized(whole(c.known_number(1)))
                    : inverse && onesided ? 2 * (x.shape()[axis] - 1)
                                          : x.shape()[axis];
  if (n < 1 || x.shape()[axis] < 1) invalid("transforms nothing");
  return {like(transformed(x, axis, n, inverse, onesided), c.in(0))};
}

Vals stft(Ctx& c) {
  Val x = in_singles(c.in(0));
  const int64_t step = sized(whole(c.known_number(1)));
  const int64_t n = c.has(3) ? sized(whole(c.known_number(3))) : c.in(2).size();
  const bool onesided = c.integer("onesided", 1) != 0;
  if (x.rank() == 2) x = unsqueeze(x, 2);
  if (x.rank() != 3) invalid(cat("the signal has ", x.rank(), " axes; expected [batch, length, 1 or 2]"));
  if (step < 1 || n < 1 || x.extent(1) < n) invalid("frames do not fit the signal");
  x = op("frames", {swap_axes(x, 1, 2)}, {{"size", n}, {"hop", step}});  // [batch, parts, frames, n]
  if (c.has(2)) {
    // A shorter window stands in the middle.
    const int64_t size = c.in(2).size(), before = (n - size) / 2;
    x = x * pad(in_singles(c.in(2)), {before, n - size - before});
  }
  return {like(transformed(transpose(x, {0, 2, 3, 1}), 2, n, false, onesided), c.in(0))};
}

// a0 - a1·cos(2πk/N) + a2·cos(4πk/N)
Vals window(Ctx& c, double a0, double a1, double a2) {
  const int64_t size = whole(c.known_number(0));
  const Elem elem = static_cast<Elem>(c.integer("output_datatype", 1));
  const double n = static_cast<double>(c.integer("periodic", 1) != 0 ? size : size - 1);
  std::vector<double> values;
  listed(size);
  for (int64_t k = 0; k < size; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / n;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return {cast(floats(c.graph(), {size}, values), elem)};
}

Vals mel_weight_matrix(Ctx& c) {
  const int64_t bins = whole(c.known_number(0)), length = whole(c.known_number(1)), rate = whole(c.known_number(2));
  const double lower = c.known_number(3), upper = c.known_number(4);
  if (bins < 1 || bins > 65536 || length < 1 || length > (1 << 24) || rate < 1) invalid("sizes are beyond reason");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const auto hertz = [](double m) { return 700 * (std::pow(10, m / 2595) - 1); };
  const double low = mel(lower), step = (mel(upper) - low) / static_cast<double>(bins + 2);
  Ints edges;
  for (int64_t i = 0; i < bins + 2; ++i)
    edges.push_back(whole(std::floor(static_cast<double>(length + 1) * hertz(static_cast<double>(i) * step + low) /
                                     static_cast<double>(rate))));
  const int64_t rows = length / 2 + 1;
  listed(bins * rows);
  std::vector<double> values(static_cast<size_t>(rows * bins), 0);
  for (int64_t b = 0; b < bins; ++b) {
    const size_t at = static_cast<size_t>(b);
    const int64_t left = edges[at], middle = edges[at + 1], right = edges[at + 2];
    const auto at_row = [&](int64_t row) -> double& { return values[static_cast<size_t>(row * bins + b)]; };
    if (middle == left && middle >= 0 && middle < rows) at_row(middle) = 1;
    // Frequencies may lie beyond what the transform has.
    for (int64_t j = std::max<int64_t>(left, 0); middle > left && j <= std::min(middle, rows - 1); ++j)
      at_row(j) = static_cast<double>(j - left) / static_cast<double>(middle - left);
    for (int64_t j = std::max<int64_t>(middle, 0); right > middle && j < std::min(right, rows); ++j)
      at_row(j) = static_cast<double>(right - j) / static_cast<double>(right - middle);
  }
  return {cast(floats(c.graph(), {rows, bins}, values), static_cast<Elem>(c.integer("output_datatype", 1)))};
}

}  // namespace

void add_signal_ops(OpTable& t) {
  t["DFT"] = dft;
  t["STFT"] = stft;
  t["HannWindow"] = [](Ctx& c) { return window(c, 0.5, 0.5, 0); };
  t["HammingWindow"] = [](Ctx& c) { return window(c, 25.0 / 46, 21.0 / 46, 0); };
  t["BlackmanWindow"] = [](Ctx& c) { return window(c, 0.42, 0.5, 0.08); };
  t["MelWeightMatrix"] = mel_weight_matrix;
}

}  // namespace gyrus::onnx
