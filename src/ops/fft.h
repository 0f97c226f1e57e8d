#pragma once
#include <complex>

#include "graph/op.h"

// Discrete Fourier transforms. Complex numbers are a trailing axis of 2 (real, imaginary) of f32; `axis` (-1 by
// default) counts without it.

namespace gyrus {

// y[k] = scale * sum over t of x[t] * exp(-2 pi i k t / n) along `axis`; inverse = 1: with +. Element t is 0 from the
// extent on where `n` is larger; by default n is the extent. `norm` "backward": the inverse has the scale 1/n;
// "forward": the other one; "ortho": both 1/sqrt(n). `kind` "complex" (the default): complex numbers to complex
// numbers; "real": real ones to the first n/2 + 1 results; "half": the first n/2 + 1 elements, of which the others are
// the conjugates, to real results, n = 2 (extent - 1) by default; imaginary parts of element 0 and, for even n, n/2 do
// not count.
extern const OpDef kFft;

enum class FftKind : uint8_t { Complex, Real, Half };

// A node over x seen as [outer, given, inner] complex or real numbers, and the result as [outer, results, inner].
struct FftGeometry {
  FftKind kind = FftKind::Complex;
  bool inverse = false;
  int64_t outer = 1, given = 1, inner = 1, n = 1, results = 1;
  double scale = 1;
  size_t axis = 0;
};
FftGeometry fft_geometry(const Node& node, const Shape& x);

// How lengths are cut. A factor above this is not summed directly: Bluestein's way makes a convolution of such a
// length.
inline constexpr int64_t kLargestRadix = 61;
// Prime factors in rising order.
std::vector<int64_t> prime_factors(int64_t n);
// Whether no prime factor is above kLargestRadix.
bool is_smooth(int64_t n);
// exp(-2 pi i k / n), exact to the last place of a double.
std::complex<double> turn(int64_t k, int64_t n);
// Bluestein: with c = exp(-pi i t^2 / n) the results are c[k] * (x c convolved with conj(c))[k]. The first n of c, and
// the transform of conj(c), wrapped around to `length`, over length.
std::vector<std::complex<double>> chirp(int64_t n);
std::vector<std::complex<double>> chirp_filter(int64_t n, int64_t length);

// Transforms of n numbers in doubles.
class ExactFft {
 public:
  explicit ExactFft(int64_t n);
  std::vector<std::complex<double>> operator()(const std::vector<std::complex<double>>& x) const;

 private:
  void part(const std::complex<double>* x, std::complex<double>* out, size_t stride, size_t n, size_t level) const;
  std::vector<std::complex<double>> convolved(const std::vector<std::complex<double>>& x) const;
  size_t n_;
  std::vector<int64_t> factors_;
  std::vector<std::complex<double>> turns_;
  std::vector<std::complex<double>> chirp_, filter_;  // where n is not smooth
  std::shared_ptr<const ExactFft> inner_;
};

}  // namespace gyrus
