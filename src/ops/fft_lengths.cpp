// Fourier transforms in doubles, of any length in n log n steps: what references and constants are made with.
#include <array>
#include <cmath>
#include <numbers>

#include "ops/fft.h"

namespace gyrus {
namespace {

using Complex = std::complex<double>;

int64_t power_of_two(int64_t least) {
  int64_t length = 1;
  while (length < least) length *= 2;
  return length;
}

}  // namespace

std::vector<int64_t> prime_factors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p = 2; p * p <= n; ++p)
    for (; n % p == 0; n /= p) factors.push_back(p);
  if (n > 1) factors.push_back(n);
  return factors;
}

bool is_smooth(int64_t n) { return n == 1 || prime_factors(n).back() <= kLargestRadix; }

std::complex<double> turn(int64_t k, int64_t n) {
  // The angle is taken to the first eighth of the circle, where sine and cosine lose nothing.
  k %= n;
  const int64_t eighths = 8 * k / n, quarters = (eighths + 1) / 2;
  const int64_t rest = 4 * k - quarters * n;  // of a quarter, in [-n/2, n/2]
  const double angle = std::numbers::pi / 2 * static_cast<double>(rest) / static_cast<double>(n);
  const double c = std::cos(angle), s = std::sin(angle);
  switch (quarters % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

std::vector<std::complex<double>> chirp(int64_t n) {
  std::vector<Complex> c;
  int64_t square = 0;  // t² mod 2n
  for (int64_t t = 0; t < n; ++t) {
    c.push_back(turn(square, 2 * n));
    square = (square + 2 * t + 1) % (2 * n);
  }
  return c;
}

std::vector<std::complex<double>> chirp_filter(int64_t n, int64_t length) {
  const std::vector<Complex> c = chirp(n);
  std::vector<Complex> wrapped(static_cast<size_t>(length), 0);
  for (size_t t = 0; t < c.size(); ++t) {
    wrapped[t] = std::conj(c[t]) / static_cast<double>(length);
    if (t) wrapped[wrapped.size() - t] = wrapped[t];
  }
  return ExactFft(length)(wrapped);
}

ExactFft::ExactFft(int64_t n) : n_(static_cast<size_t>(n)) {
  if (is_smooth(n)) {
    factors_ = prime_factors(n);
    for (int64_t k = 0; k < n; ++k) turns_.push_back(turn(k, n));
    return;
  }
  const int64_t length = power_of_two(2 * n - 1);
  chirp_ = chirp(n);
  filter_ = chirp_filter(n, length);
  inner_ = std::make_shared<ExactFft>(length);
}

std::vector<Complex> ExactFft::operator()(const std::vector<Complex>& x) const {
  if (inner_) return convolved(x);
  std::vector<Complex> out(n_);
  part(x.data(), out.data(), 1, n_, 0);
  return out;
}

// Decimation in time, a prime factor at a time: x[0], x[stride] … transformed into out[0 … n).
void ExactFft::part(const Complex* x, Complex* out, size_t stride, size_t n, size_t level) const {
  if (n == 1) {
    out[0] = x[0];
    return;
  }
  const auto radix = static_cast<size_t>(factors_[level]);
  const size_t rest = n / radix;
  for (size_t j = 0; j < radix; ++j) part(x + j * stride, out + j * rest, stride * radix, rest, level + 1);
  std::array<Complex, kLargestRadix> sums;
  for (size_t k = 0; k < rest; ++k) {
    for (size_t m = 0; m < radix; ++m) {
      double re = 0, im = 0;
      const size_t step = (k + m * rest) * stride;  // n stride is the whole circle
      for (size_t j = 0, at = 0; j < radix; ++j, at = at + step < n_ ? at + step : at + step - n_) {
        const Complex a = out[j * rest + k], w = turns_[at];
        re += a.real() * w.real() - a.imag() * w.imag();
        im += a.real() * w.imag() + a.imag() * w.real();
      }
      sums[m] = {re, im};
    }
    for (size_t m = 0; m < radix; ++m) out[m * rest + k] = sums[m];
  }
}

// Bluestein's way, the inverse transform by conjugates.
std::vector<Complex> ExactFft::convolved(const std::vector<Complex>& x) const {
  std::vector<Complex> padded(filter_.size(), 0);
  for (size_t t = 0; t < n_; ++t) padded[t] = x[t] * chirp_[t];
  padded = (*inner_)(padded);
  for (size_t k = 0; k < padded.size(); ++k) padded[k] = std::conj(padded[k] * filter_[k]);
  padded = (*inner_)(padded);
  std::vector<Complex> out(n_);
  for (size_t k = 0; k < n_; ++k) out[k] = std::conj(padded[k]) * chirp_[k];
  return out;
}

}  // namespace gyrus
