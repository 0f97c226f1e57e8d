#include "ops/fft_parts.h"

#include <algorithm>
#include <numeric>

#include "ops/building.h"
#include "ops/fft.h"

namespace gyrus {
namespace {

using Complex = std::complex<double>;

// What stays the same of a node while it is taken apart.
struct Part {
  FftGeometry g;
  std::string norm;

  Value along(Value x, size_t axis, int64_t n) const { return fft_along(x, axis, n, "complex", norm, g.inverse); }
  Complex turned(Complex forward) const { return g.inverse ? std::conj(forward) : forward; }
};

size_t last_axis(Value x) { return x.shape().size() - 1; }

// x times constants of that shape, which ends with 1 for the two parts of a number.
Value times(Value x, const std::vector<Complex>& numbers, const Shape& shape) {
  Tensor re(DType::F32, shape), im(DType::F32, shape);
  for (size_t i = 0; i < numbers.size(); ++i) {
    re.as<float>()[i] = static_cast<float>(numbers[i].real());
    im.as<float>()[i] = static_cast<float>(numbers[i].imag());
  }
  const Value a = x.graph().constant(std::move(re)), b = x.graph().constant(std::move(im));
  const Value real = slice_of(x, last_axis(x), 0, 1), imaginary = slice_of(x, last_axis(x), 1, 2);
  return concat({real * a - imaginary * b, real * b + imaginary * a}, static_cast<int64_t>(last_axis(x)));
}

// Real and imaginary parts times two numbers for each element of an axis.
Value times_parts(Value x, size_t axis, const std::vector<float>& numbers) {
  Shape shape(x.shape().size() - axis, 1);
  shape.front() = static_cast<int64_t>(numbers.size()) / 2;
  shape.back() = 2;
  return x * x.graph().constant(Tensor::from_floats(shape, numbers));
}

Value swapped(Value x, size_t a, size_t b) {
  std::vector<int64_t> perm(x.shape().size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[a], perm[b]);
  return transpose(x, perm);
}

Value of_real(Value x, const Part& part) {
  Shape shape = x.shape();
  shape.push_back(1);
  const Value complex = fft_fitted(reshape(x, shape), shape.size() - 1, 2);
  return slice_of(part.along(complex, part.g.axis, part.g.n), part.g.axis, 0, part.g.results);
}

// The half and the conjugates of its elements n/2 … 1, the other way round.
Value of_half(Value x, const Part& part) {
  const int64_t n = part.g.n, bins = n / 2 + 1, mirrored = n - bins;
  std::vector<float> own, other;
  for (int64_t k = 0; k < bins; ++k) own.insert(own.end(), {1.0F, k == 0 || 2 * k == n ? 0.0F : 1.0F});
  Value whole = times_parts(fft_fitted(x, part.g.axis, bins), part.g.axis, own);
  if (mirrored > 0) {
    for (int64_t k = 0; k < mirrored; ++k) other.insert(other.end(), {1.0F, -1.0F});
    std::vector<int64_t> starts(whole.shape().size(), 0), ends = whole.shape(), steps(whole.shape().size(), 1);
    starts[part.g.axis] = mirrored;
    ends[part.g.axis] = 0;
    steps[part.g.axis] = -1;
    whole = concat({whole, times_parts(slice(whole, starts, ends, steps), part.g.axis, other)},
                   static_cast<int64_t>(part.g.axis));
  }
  const Value y = slice_of(part.along(whole, part.g.axis, n), whole.shape().size() - 1, 0, 1);
  Shape shape = y.shape();
  shape.pop_back();
  return reshape(y, shape);
}

// The factor of n next to its root.
int64_t half_of(const std::vector<int64_t>& factors, int64_t n) {
  int64_t a = 1;
  for (auto it = factors.rbegin(); it != factors.rend(); ++it)
    if (a * *it * a * *it <= n) a *= *it;
  return a == 1 ? factors.front() : a;
}

// Of lines [L, n, 2]. With t = b t1 + t2 and k = k1 + a k2: transforms of a over t1, turned by t2 k1 / n, then of b.
Value by_factors(Value x, const Part& part, int64_t a) {
  const int64_t n = part.g.n, b = n / a, lines = x.shape()[0];
  Value y = part.along(transpose(reshape(x, {lines, a, b, 2}), {0, 2, 1, 3}), 2, a);
  std::vector<Complex> turns;
  for (int64_t t = 0; t < b; ++t)
    for (int64_t k = 0; k < a; ++k) turns.push_back(part.turned(turn(t * k, n)));
  y = part.along(transpose(times(y, turns, {b, a, 1}), {0, 2, 1, 3}), 2, b);
  return reshape(transpose(y, {0, 2, 1, 3}), {lines, n, 2});
}

// Of lines [L, n, 2] of prime length, as Bluestein does it.
Value by_convolution(Value x, const Part& part) {
  int64_t length = 1;
  while (length < 2 * part.g.n - 1) length *= 2;
  std::vector<Complex> c = chirp(part.g.n), filter = chirp_filter(part.g.n, length);
  for (Complex& number : c) number = part.turned(number);
  for (Complex& number : filter) number = part.turned(number);
  const auto along = [&](Value v, bool back) {  // without a scale: the filter has it
    return fft_along(v, 1, length, "complex", part.g.inverse == back ? "backward" : "forward", part.g.inverse != back);
  };
  Value y = fft_fitted(times(x, c, {part.g.n, 1}), 1, length);
  y = along(times(along(y, false), filter, {length, 1}), true);
  for (Complex& number : c) number *= part.g.scale;
  return times(slice_of(y, 1, 0, part.g.n), c, {part.g.n, 1});
}

}  // namespace

Value fft_along(Value x, size_t axis, int64_t n, const std::string& kind, const std::string& norm, bool inverse) {
  return apply(
      "fft", {x},
      {{"axis", static_cast<int64_t>(axis)}, {"n", n}, {"norm", norm}, {"inverse", int64_t{inverse}}, {"kind", kind}});
}

Value fft_fitted(Value x, size_t axis, int64_t extent) {
  const int64_t given = x.shape()[axis];
  if (given > extent) return slice_of(x, axis, 0, extent);
  if (given == extent) return x;
  std::vector<int64_t> pads(2 * x.shape().size(), 0);
  pads[axis + x.shape().size()] = extent - given;
  return pad(x, pads);
}

std::vector<ValueId> decompose_fft(Graph& graph, const Node& node) {
  const Labelled labelled(graph, node);
  const Value x(graph, node.inputs[0]);
  const Part part{fft_geometry(node, x.shape()), node.attrs.text("norm", "backward")};
  const FftGeometry& g = part.g;
  if (g.kind == FftKind::Real) return {of_real(x, part).id()};
  if (g.kind == FftKind::Half) return {of_half(x, part).id()};
  if (g.given != g.n) return {part.along(fft_fitted(x, g.axis, g.n), g.axis, g.n).id()};
  const size_t last = last_axis(x) - 1;
  if (g.inner != 1) return {swapped(part.along(swapped(x, g.axis, last), last, g.n), g.axis, last).id()};
  const Value lines = reshape(x, {g.outer, g.n, 2});
  const std::vector<int64_t> factors = prime_factors(g.n);
  const Value y = factors.size() > 1 ? by_factors(lines, part, half_of(factors, g.n)) : by_convolution(lines, part);
  return {reshape(y, x.shape()).id()};
}

}  // namespace gyrus
