#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/error.h"
#include "gyrus/signal.h"

// Windows and mel filters, computed in doubles.

namespace gyrus {
namespace {

// The sum of (-1)^i a_i cos(2 pi i x).
double cosines(const std::vector<double>& a, double x) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += (i % 2 ? -a[i] : a[i]) * std::cos(2 * std::numbers::pi * static_cast<double>(i) * x);
  return sum;
}

// The modified Bessel function of the first kind of order 0, by its series.
double bessel(double x) {
  double term = 1, sum = 1;
  for (int k = 1; term > sum * 1e-18; ++k) {
    term *= x / (2 * k) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

// At x in [0, 1] of its period.
double window_value(WindowKind kind, double x, double beta) {
  switch (kind) {
    case WindowKind::Rectangular: return 1;
    case WindowKind::Hann: return cosines({0.5, 0.5}, x);
    case WindowKind::Hamming: return cosines({0.54, 0.46}, x);
    case WindowKind::Blackman: return cosines({0.42, 0.5, 0.08}, x);
    case WindowKind::BlackmanHarris: return cosines({0.35875, 0.48829, 0.14128, 0.01168}, x);
    case WindowKind::Nuttall: return cosines({0.3635819, 0.4891775, 0.1365995, 0.0106411}, x);
    case WindowKind::FlatTop: return cosines({0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368}, x);
    case WindowKind::Bartlett: return 1 - std::abs(2 * x - 1);
    case WindowKind::Kaiser: {
      const double from_middle = 2 * x - 1;
      return bessel(beta * std::sqrt(std::max(0.0, 1 - from_middle * from_middle))) / bessel(beta);
    }
  }
  return 1;
}

// Slaney's scale is straight below 1000 Hz, 15 mel, and logarithmic above.
double to_mel(MelScale scale, double hertz) {
  if (scale == MelScale::Htk) return 2595 * std::log10(1 + hertz / 700);
  return hertz < 1000 ? 3 * hertz / 200 : 15 + 27 * std::log(hertz / 1000) / std::log(6.4);
}

double to_hertz(MelScale scale, double mel) {
  if (scale == MelScale::Htk) return 700 * (std::pow(10, mel / 2595) - 1);
  return mel < 15 ? 200 * mel / 3 : 1000 * std::exp((mel - 15) / 27 * std::log(6.4));
}

}  // namespace

Tensor window_tensor(WindowKind kind, int64_t size, bool periodic, double beta) {
  if (size < 1) fail(ErrorCode::InvalidGraph, "window", "a window of ", size, " elements; expected 1 or more");
  Tensor window(DType::F32, {size});
  const auto period = static_cast<double>(periodic ? size : size - 1);
  for (int64_t i = 0; i < size; ++i)
    window.as<float>()[i] =
        size == 1 ? 1.0F : static_cast<float>(window_value(kind, static_cast<double>(i) / period, beta));
  return window;
}

Tensor mel_filters(const MelOptions& options) {
  const double most = options.f_max.value_or(options.sample_rate / 2);
  if (options.n_fft < 1 || options.mels < 1 || !(options.sample_rate > 0) || !(options.f_min >= 0) ||
      !(most > options.f_min))
    fail(ErrorCode::InvalidGraph, "mel_filters", options.mels, " filters between ", options.f_min, " and ", most,
         " Hz for a transform of ", options.n_fft, ": expected at least one, and a range above 0 Hz");
  const double low = to_mel(options.scale, options.f_min), high = to_mel(options.scale, most);
  std::vector<double> points;
  for (int64_t i = 0; i < options.mels + 2; ++i)
    points.push_back(
        to_hertz(options.scale, low + (high - low) * static_cast<double>(i) / static_cast<double>(options.mels + 1)));
  const int64_t bins = options.n_fft / 2 + 1;
  Tensor filters(DType::F32, {options.mels, bins});
  for (int64_t m = 0; m < options.mels; ++m) {
    const double* p = points.data() + m;
    const double height = options.normalized ? 2 / (p[2] - p[0]) : 1;
    for (int64_t k = 0; k < bins; ++k) {
      const double f = static_cast<double>(k) * options.sample_rate / static_cast<double>(options.n_fft);
      const double value = std::min((f - p[0]) / (p[1] - p[0]), (p[2] - f) / (p[2] - p[1]));
      filters.as<float>()[m * bins + k] = static_cast<float>(std::max(0.0, value) * height);
    }
  }
  return filters;
}

}  // namespace gyrus
