// Fourier transforms as products with constant matrices, windows and mel filters.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

constexpr int64_t kLongest = 4096;  // of a transform, whose matrix has its square

// cos and ∓sin of 2π·i·k/n: [rows, columns].
struct Waves {
  Val cos, sin;
};
Waves waves(Graph& graph, int64_t rows, int64_t columns, int64_t n) {
  if (n > kLongest) unsupported(cat("a transform of ", n, " elements"));
  std::vector<double> c, s;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < columns; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>((i * k) % n) / static_cast<double>(n);
      c.push_back(std::cos(angle));
      s.push_back(std::sin(angle));
    }
  return {floats(graph, {rows, columns}, c), floats(graph, {rows, columns}, s)};
}

// [rows, n] of real and imaginary parts (absent: 0) → [rows, n or n/2+1, 2].
Val transformed(Val real, Val imaginary, int64_t n, bool inverse, bool onesided) {
  const Waves w = waves(*real.graph, real.extent(1), onesided ? n / 2 + 1 : n, n);
  const double sign = inverse ? 1 : -1;
  Val re = matmul(real, w.cos), im = matmul(real, w.sin) * sign;
  if (imaginary) {
    re = re - matmul(imaginary, w.sin) * sign;
    im = im + matmul(imaginary, w.cos);
  }
  const Val both = concat({unsqueeze(re, 2), unsqueeze(im, 2)}, 2);
  return inverse ? both / static_cast<double>(n) : both;
}

Val part(Val x, int64_t k) {
  const size_t last = x.rank() - 1;
  return squeeze(slice(x, last, k, k + 1), last);
}

// Cut or filled up with zeros along an axis.
Val fitted(Val x, size_t axis, int64_t extent) {
  Ints pads(2 * x.rank(), 0);
  pads[axis + x.rank()] = extent - x.shape()[axis];
  return pad(x, pads);
}

Vals dft(Ctx& c) {
  Val x = c.in(0);
  const bool inverse = c.integer("inverse", 0) != 0, onesided = c.integer("onesided", 0) != 0;
  const int64_t given = c.opset() >= 20 ? (c.has(2) ? whole(c.known_number(2)) : -2) : c.integer("axis", 1);
  const size_t axis = axis_of(given, x.rank()), last = x.rank() - 1;
  if (axis == last) invalid("transforms the axis of real and imaginary parts");
  const bool complex = x.extent(-1) == 2;
  const int64_t n = c.has(1)              ? whole(c.known_number(1))
                    : inverse && onesided ? 2 * (x.shape()[axis] - 1)
                                          : x.shape()[axis];
  if (n < 1) invalid("transforms nothing");
  if (n > kLongest) unsupported(cat("a transform of ", n, " elements"));
  Val real = part(x, 0), imaginary = complex ? part(x, 1) : Val{};
  const auto rows = [&](Val v, int64_t extent) {  // the axis last
    v = fitted(v, axis, extent);
    v = swap_axes(v, axis, v.rank() - 1);
    return v;
  };
  Shape lead = swap_axes(real, axis, real.rank() - 1).shape();
  lead.pop_back();
  if (inverse && onesided) {
    // The half that is not given is the conjugate of the other: y = Re Σ f_k · m_k · e^{+…} / n.
    const int64_t half = n / 2 + 1;
    real = reshape(rows(real, half), {-1, half});
    Val im = imaginary ? reshape(rows(imaginary, half), {-1, half}) : Val{};
    const Waves w = waves(c.graph(), half, n, n);
    std::vector<double> times;
    for (int64_t k = 0; k < half; ++k) times.push_back(k == 0 || (n % 2 == 0 && k == half - 1) ? 1 : 2);
    const Val m = floats(c.graph(), {half}, times);
    Val y = matmul(real * m, w.cos);
    if (im) y = y - matmul(im * m, w.sin);
    Shape shape = lead;
    shape.push_back(n);
    y = swap_axes(reshape(y / static_cast<double>(n), shape), axis, lead.size());
    return {unsqueeze(y, y.rank())};
  }
  real = reshape(rows(real, n), {-1, n});
  if (imaginary) imaginary = reshape(rows(imaginary, n), {-1, n});
  const Val y = transformed(real, imaginary, n, inverse, onesided);
  Shape shape = lead;
  shape.push_back(y.extent(1));
  shape.push_back(2);
  return {swap_axes(reshape(y, shape), axis, lead.size())};
}

Vals stft(Ctx& c) {
  Val x = c.in(0);
  const int64_t step = whole(c.known_number(1));
  const int64_t n = c.has(3) ? whole(c.known_number(3)) : c.in(2).size();
  const bool onesided = c.integer("onesided", 1) != 0;
  if (x.rank() == 2) x = unsqueeze(x, 2);
  const int64_t batch = x.extent(0), length = x.extent(1);
  if (step < 1 || n < 1 || length < n) invalid("frames do not fit the signal");
  const int64_t frames = (length - n) / step + 1;
  if (n > kLongest) unsupported(cat("a transform of ", n, " elements"));
  listed(frames * n);
  Ints at;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < n; ++i) at.push_back(f * step + i);
  const auto framed = [&](Val v) {
    Val y = op("gather", {v, indices(c.graph(), {frames, n}, at)}, {{"axis", int64_t{1}}});
    if (c.has(2)) {
      // A shorter window stands in the middle.
      const int64_t size = c.in(2).size(), before = (n - size) / 2;
      y = y * pad(c.in(2), {before, n - size - before});
    }
    return reshape(y, {batch * frames, n});
  };
  const Val y = transformed(framed(part(x, 0)), x.extent(2) == 2 ? framed(part(x, 1)) : Val{}, n, false, onesided);
  return {reshape(y, {batch, frames, y.extent(1), 2})};
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
    const auto put = [&](int64_t row, double value) {
      if (row >= 0 && row < rows) values[static_cast<size_t>(row * bins + b)] = value;
    };
    if (middle == left)
      put(middle, 1);
    else
      for (int64_t j = left; j <= middle; ++j)
        put(j, static_cast<double>(j - left) / static_cast<double>(middle - left));
    for (int64_t j = middle; right > middle && j < right; ++j)
      put(j, static_cast<double>(right - j) / static_cast<double>(right - middle));
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
