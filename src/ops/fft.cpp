#include "ops/fft.h"

#include <algorithm>
#include <cmath>

#include "ops/building.h"
#include "ops/common.h"
#include "ops/fft_parts.h"

namespace gyrus {
namespace {

using Complex = std::complex<double>;

constexpr int64_t kLongest = int64_t{1} << 28;  // exponents are computed in 32 bits

FftKind kind_of(const Node& node) {
  const std::string kind = node.attrs.text("kind", "complex");
  if (kind == "complex") return FftKind::Complex;
  if (kind == "real") return FftKind::Real;
  if (kind == "half") return FftKind::Half;
  fail(ErrorCode::InvalidGraph, node.op, "kind is '", kind, "', expected complex, real or half");
}

double scale_of(const Node& node, bool inverse, int64_t n) {
  const std::string norm = node.attrs.text("norm", "backward");
  if (norm == "ortho") return 1 / std::sqrt(static_cast<double>(n));
  if (norm != "backward" && norm != "forward")
    fail(ErrorCode::InvalidGraph, node.op, "norm is '", norm, "', expected backward, ortho or forward");
  return (norm == "backward") == inverse ? 1 / static_cast<double>(n) : 1;
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axis", "n", "norm", "inverse", "kind"});
  if (inputs[0].dtype != DType::F32)
    fail(ErrorCode::Unsupported, node.op, "input is ", to_string(inputs[0].dtype), ", expected f32; add a cast");
  const FftGeometry g = fft_geometry(node, inputs[0].shape);
  Shape shape = inputs[0].shape;
  shape[g.axis] = g.results;
  if (g.kind == FftKind::Real) shape.push_back(2);
  if (g.kind == FftKind::Half) shape.pop_back();
  return {{DType::F32, shape, Layout::Plain}};
}

// Element t of the line that begins at `x`, of n.
Complex element(const FftGeometry& g, const double* x, int64_t t) {
  const bool mirrored = g.kind == FftKind::Half && t > g.n / 2;
  const int64_t at = mirrored ? g.n - t : t;
  if (at >= g.given) return 0;
  if (g.kind == FftKind::Real) return x[at * g.inner];
  const double re = x[2 * at * g.inner], im = x[2 * at * g.inner + 1];
  if (g.kind == FftKind::Half && (at == 0 || 2 * at == g.n)) return re;
  return {re, mirrored ? -im : im};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const FftGeometry g = fft_geometry(node, inputs[0]->shape);
  if (g.outer * g.inner == 0) return;
  const ExactFft transform(g.n);
  const int64_t lanes_in = g.kind == FftKind::Real ? 1 : 2, lanes_out = g.kind == FftKind::Half ? 1 : 2;
  std::vector<Complex> line(static_cast<size_t>(g.n));
  for (int64_t o = 0; o < g.outer; ++o)
    for (int64_t i = 0; i < g.inner; ++i) {
      const double* x = inputs[0]->data.data() + (o * g.given * g.inner + i) * lanes_in;
      for (int64_t t = 0; t < g.n; ++t) {
        const Complex value = element(g, x, t);
        line[static_cast<size_t>(t)] = g.inverse ? std::conj(value) : value;
      }
      const std::vector<Complex> y = transform(line);
      double* out = outputs[0].data.data() + (o * g.results * g.inner + i) * lanes_out;
      for (int64_t k = 0; k < g.results; ++k) {
        const Complex value = y[static_cast<size_t>(k)] * g.scale;
        out[k * g.inner * lanes_out] = value.real();
        if (lanes_out == 2) out[k * g.inner * 2 + 1] = g.inverse ? -value.imag() : value.imag();
      }
    }
}

double flops(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  const FftGeometry g = fft_geometry(node, inputs[0].shape);
  const auto n = static_cast<double>(g.n);
  return static_cast<double>(g.outer * g.inner) * 5 * n * std::log2(n) * (g.kind == FftKind::Complex ? 1 : 0.5);
}

// [n/2 + 1, 1 …, 2]: how often the elements of a half stand in the whole (or one over that), for both parts of each.
Value weights_of_half(Value x, const FftGeometry& g, bool inverted) {
  const int64_t bins = g.n / 2 + 1;
  Shape shape(x.shape().size() - g.axis, 1);
  shape.front() = bins;
  shape.back() = 2;
  Tensor weights(DType::F32, shape);
  for (int64_t k = 0; k < bins; ++k) {
    const bool alone = k == 0 || 2 * k == g.n;
    weights.as<float>()[2 * k] = alone ? 1.0F : inverted ? 0.5F : 2.0F;
    weights.as<float>()[2 * k + 1] = alone ? 0.0F : inverted ? 0.5F : 2.0F;
  }
  return x.graph().constant(std::move(weights));
}

// The adjoint: the other direction with the other scale.
std::vector<Value> gradient(const Backward& back) {
  const FftGeometry g = fft_geometry(back.node, back.inputs[0].shape());
  const std::string norm = back.node.attrs.text("norm", "backward");
  const std::string other = norm == "backward" ? "forward" : norm == "forward" ? "backward" : norm;
  const Value y = back.gradients[0];
  if (g.kind == FftKind::Complex)
    return {fft_fitted(fft_along(y, g.axis, g.n, "complex", other, !g.inverse), g.axis, g.given)};
  if (g.kind == FftKind::Real)
    return {fft_fitted(fft_along(y * weights_of_half(y, g, true), g.axis, g.n, "half", other, !g.inverse), g.axis,
                       g.given)};
  const Value x = fft_along(y, g.axis, g.n, "real", other, !g.inverse);
  return {fft_fitted(x * weights_of_half(x, g, false), g.axis, g.given)};
}

}  // namespace

FftGeometry fft_geometry(const Node& node, const Shape& x) {
  FftGeometry g;
  g.kind = kind_of(node);
  Shape shape = x;
  if (g.kind != FftKind::Real) {
    if (shape.empty() || shape.back() != 2)
      fail(ErrorCode::InvalidGraph, node.op, "input is ", to_string(x), ", expected complex numbers, a last axis of 2");
    shape.pop_back();
  }
  g.axis = checked_axis(node, node.attrs.integer("axis", -1), shape.size());
  g.inverse = flag(node, "inverse");
  g.given = shape[g.axis];
  g.n = node.attrs.integer("n", g.kind == FftKind::Half ? 2 * (g.given - 1) : g.given);
  if (g.given < 1 || g.n < 1 || g.n > kLongest)
    fail(ErrorCode::InvalidGraph, node.op, "a transform of ", g.n, " numbers, of which ", g.given,
         " are given; expected 1 to ", kLongest);
  for (size_t a = 0; a < g.axis; ++a) g.outer *= shape[a];
  for (size_t a = g.axis + 1; a < shape.size(); ++a) g.inner *= shape[a];
  g.results = g.kind == FftKind::Real ? g.n / 2 + 1 : g.n;
  g.scale = scale_of(node, g.inverse, g.n);
  return g;
}

const OpDef kFft = {
    .name = "fft",
    .infer = infer,
    .reference = reference,
    .gradient = gradient,
    .decompose = decompose_fft,
    .has_kernel = true,
    .flops = flops,
};

}  // namespace gyrus
