#pragma once
#include <algorithm>
#include <cstdint>

#include "cpu/strip_ops.h"

namespace gyrus::cpu {

// Count, mean and squared distances from it, of parts that come one after another (Chan, Golub and LeVeque 1983).
struct Gathered {
  static constexpr int64_t kStrip = 4096;
  double count = 0, mean = 0, squares = 0;

  void add(const float* x, int64_t elements) {
    // Short strips: sums in f32 lanes keep their digits, taken from a value of the strip itself.
    for (int64_t at = 0; at < elements; at += kStrip) {
      const int64_t length = std::min(kStrip, elements - at);
      const double n = static_cast<double>(length), pivot = static_cast<double>(x[at]);
      const Moments m = moments(x + at, length, x[at]);
      merge({n, pivot + m.sum / n, std::max(0.0, m.squares - m.sum * m.sum / n)});
    }
  }
  void merge(const Gathered& other) {
    if (other.count == 0) return;
    const double all = count + other.count, distance = other.mean - mean;
    mean += distance * other.count / all;
    squares += other.squares + distance * distance * count * other.count / all;
    count = all;
  }
  // Mean and population variance.
  void write(float* out) const {
    out[0] = static_cast<float>(mean);
    out[1] = static_cast<float>(count > 0 ? squares / count : 0);
  }
};

}  // namespace gyrus::cpu
