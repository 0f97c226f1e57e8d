#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "ops/cast.h"
#include "ops/elementwise.h"

// The rows. Derivatives follow PyTorch where a function has a corner: relu and abs have slope 0 at 0, min and max give
// half to each of two equal operands, clamps pass the gradient at their bounds.

namespace gyrus {
namespace {

constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kInverseSqrt2Pi = 0.39894228040143267794;
constexpr double kGeluCube = 0.044715;

double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

// The normal distribution function; erfc keeps the digits of the left tail.
double normal_cdf(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }

double gelu(const double* x, const double* a) {
  if (a[0] == 0) return *x * normal_cdf(*x);
  return *x * sigmoid(2 * kSqrt2OverPi * (*x + kGeluCube * *x * *x * *x));
}

// exp(-x²/2) / √2π
Term normal_density(Term x) { return affine(apply("exp", affine(apply("square", x), -0.5)), kInverseSqrt2Pi); }

std::vector<Term> gelu_derivative(const Chain& d) {
  const Term x = d.x[0];
  if (d.attrs[0] == 0) return {d.g * (apply("normal_cdf", x) + x * normal_density(x))};
  const Term square = apply("square", x);
  const Term s = apply("sigmoid", x * affine(square, 2 * kSqrt2OverPi * kGeluCube, 2 * kSqrt2OverPi));
  const Term slope = affine(square, 6 * kSqrt2OverPi * kGeluCube, 2 * kSqrt2OverPi);
  return {d.g * s * affine(x * slope * affine(s, -1, 1), 1, 1)};
}

// alpha exp(x) below 0, 1 above.
std::vector<Term> elu_derivative(const Chain& d) {
  const Term above = apply("step", d.x[0]);
  const Term below = affine(apply("exp", -apply("relu", -d.x[0])), d.attrs[0]);
  return {d.g * (below + above * affine(below, -1, 1))};
}

// 1 where a < b, 1/2 where they are equal.
Term is_less(Term a, Term b) { return affine(apply("step", b - a) - apply("step", a - b), 0.5, 0.5); }

std::vector<Term> clamp_derivative(const Chain& d) {
  const Term v = affine(d.x[0], d.attrs[0], d.attrs[1]);
  const Term outside = apply("step", affine(v, -1, d.attrs[2])) + apply("step", affine(v, 1, -d.attrs[3]));
  return {d.g * affine(outside, -d.attrs[0], d.attrs[0])};
}

// 1 where x is 0, else 0.
Term is_zero(Term x) { return affine(apply("step", x) + apply("step", -x), -1, 1); }

// e x^(e-1) and x^e log x. Where one factor is 0 the other may be infinite: 0 is kept out of the power and of the log.
std::vector<Term> pow_derivative(const Chain& d) {
  const Term x = d.x[0], e = d.x[1];
  return {d.g * e * apply("pow", x, affine(e, 1, -1) + is_zero(e)), d.g * d.y * apply("log", x + is_zero(x))};
}

void check_bounds(const Node& node, const double* a) {
  if (a[2] <= a[3]) return;
  fail(ErrorCode::InvalidGraph, node.op, "lo is ", a[2], " and hi is ", a[3], ": expected lo <= hi");
}

using D = const Chain&;
using Terms = std::vector<Term>;
using Line = std::optional<ScaleShift>;

std::vector<Elementwise> activations() {
  return {
      {.name = "relu",
       .value = [](const double* x, const double*) { return *x < 0 ? 0 : *x; },
       .wgsl = "act_relu($0)",
       .derivative = [](D d) -> Terms { return {d.g * apply("step", d.x[0])}; }},
      {.name = "leaky_relu",
       .attrs = {{"alpha", 0.01}},
       .value = [](const double* x, const double* a) { return *x < 0 ? a[0] * *x : *x; },
       .wgsl = "act_leaky_relu($0, $alpha)",
       .derivative = [](D d) -> Terms { return {d.g * affine(apply("step", d.x[0]), 1 - d.attrs[0], d.attrs[0])}; }},
      {.name = "elu",
       .attrs = {{"alpha", 1}},
       .value = [](const double* x, const double* a) { return *x < 0 ? a[0] * std::expm1(*x) : *x; },
       .wgsl = "act_elu($0, $alpha)",
       .derivative = elu_derivative},
      {.name = "gelu",  // the normal distribution function itself, or its approximation by tanh
       .attrs = {{"approximate", 0, {"none", "tanh"}}},
       .value = gelu,
       .wgsl = "act_gelu_$approximate($0)",
       .derivative = gelu_derivative},
      {.name = "silu",
       .value = [](const double* x, const double*) { return *x * sigmoid(*x); },
       .wgsl = "act_silu($0)",
       .derivative = [](D d) -> Terms {
         const Term s = apply("sigmoid", d.x[0]);
         return {d.g * s * affine(d.x[0] * affine(s, -1, 1), 1, 1)};
       }},
      {.name = "sigmoid",
       .value = [](const double* x, const double*) { return sigmoid(*x); },
       .wgsl = "act_sigmoid($0)",
       .derivative = [](D d) -> Terms { return {d.g * d.y * affine(d.y, -1, 1)}; }},
      {.name = "tanh",
       .value = [](const double* x, const double*) { return std::tanh(*x); },
       .wgsl = "act_tanh($0)",
       .derivative = [](D d) -> Terms { return {d.g * affine(apply("square", d.y), -1, 1)}; }},
      {.name = "softplus",
       .value = [](const double* x, const double*) { return std::max(*x, 0.0) + std::log1p(std::exp(-std::abs(*x))); },
       .wgsl = "act_softplus($0)",
       .derivative = [](D d) -> Terms { return {d.g * apply("sigmoid", d.x[0])}; }},
  };
}

std::vector<Elementwise> functions() {
  return {
      {.name = "exp",
       .value = [](const double* x, const double*) { return std::exp(*x); },
       .wgsl = "exp($0)",
       .derivative = [](D d) -> Terms { return {d.g * d.y}; }},
      {.name = "log",
       .value = [](const double* x, const double*) { return std::log(*x); },
       .wgsl = "log($0)",
       .derivative = [](D d) -> Terms { return {d.g / d.x[0]}; }},
      {.name = "sqrt",
       .value = [](const double* x, const double*) { return std::sqrt(*x); },
       .wgsl = "sqrt($0)",
       .derivative = [](D d) -> Terms { return {affine(d.g, 0.5) / d.y}; }},
      {.name = "rsqrt",
       .value = [](const double* x, const double*) { return 1 / std::sqrt(*x); },
       .wgsl = "inverseSqrt($0)",
       .derivative = [](D d) -> Terms { return {affine(d.g, -0.5) * d.y / d.x[0]}; }},
      {.name = "normal_cdf",  // of the normal distribution with mean 0 and variance 1
       .value = [](const double* x, const double*) { return normal_cdf(*x); },
       .wgsl = "act_normal_cdf($0)",
       .derivative = [](D d) -> Terms { return {d.g * normal_density(d.x[0])}; }},
      {.name = "step",  // 1 above 0, else 0
       .value = [](const double* x, const double*) { return *x > 0 ? 1.0 : 0.0; },
       .wgsl = "select($T(0.0), $T(1.0), $0 > $T(0.0))",
       .derivative = [](D d) -> Terms { return {affine(d.g, 0)}; }},
      {.name = "neg",
       .domain = Domain::Signed,
       .value = [](const double* x, const double*) { return -*x; },
       .wgsl = "(-$0)",
       .derivative = [](D d) -> Terms { return {-d.g}; }},
      {.name = "abs",
       .domain = Domain::Signed,
       .value = [](const double* x, const double*) { return std::abs(*x); },
       .wgsl = "abs($0)",
       .derivative = [](D d) -> Terms { return {d.g * (apply("step", d.x[0]) - apply("step", -d.x[0]))}; }},
      {.name = "square",
       .domain = Domain::Signed,
       .value = [](const double* x, const double*) { return *x * *x; },
       .wgsl = "($0 * $0)",
       .derivative = [](D d) -> Terms { return {d.g * affine(d.x[0], 2)}; }},
  };
}

// Integer results that leave the range are undefined.
std::vector<Elementwise> pairs() {
  return {
      {.name = "add",
       .arity = 2,
       .domain = Domain::Numbers,
       .value = [](const double* x, const double*) { return x[0] + x[1]; },
       .wgsl = "($0 + $1)",
       .derivative = [](D d) -> Terms {
         return {d.g, d.g};
       },
       .as_affine = [](const double*, size_t, double c) -> Line {
         return ScaleShift{1, c};
       }},
      {.name = "sub",
       .arity = 2,
       .domain = Domain::Numbers,
       .value = [](const double* x, const double*) { return x[0] - x[1]; },
       .wgsl = "($0 - $1)",
       .derivative = [](D d) -> Terms {
         return {d.g, -d.g};
       },
       .as_affine = [](const double*, size_t k, double c) -> Line {
         return k == 0 ? ScaleShift{1, -c} : ScaleShift{-1, c};
       }},
      {.name = "mul",
       .arity = 2,
       .domain = Domain::Numbers,
       .value = [](const double* x, const double*) { return x[0] * x[1]; },
       .wgsl = "($0 * $1)",
       .derivative = [](D d) -> Terms {
         return {d.g * d.x[1], d.g * d.x[0]};
       },
       .as_affine = [](const double*, size_t, double c) -> Line {
         return ScaleShift{c, 0};
       }},
      {.name = "div",
       .arity = 2,
       .value = [](const double* x, const double*) { return x[0] / x[1]; },
       .wgsl = "($0 / $1)",
       .derivative = [](D d) -> Terms {
         const Term scaled = d.g / d.x[1];
         return {scaled, -(scaled * d.y)};
       },
       .as_affine =
           [](const double*, size_t k, double c) {
             return k == 0 && c != 0 ? Line(ScaleShift{1 / c, 0}) : Line();
           }},
      {.name = "min",
       .arity = 2,
       .domain = Domain::Numbers,
       .value = [](const double* x, const double*) { return std::min(x[0], x[1]); },
       .wgsl = "min($0, $1)",
       .derivative = [](D d) -> Terms {
         return {d.g * is_less(d.x[0], d.x[1]), d.g * is_less(d.x[1], d.x[0])};
       }},
      {.name = "max",
       .arity = 2,
       .domain = Domain::Numbers,
       .value = [](const double* x, const double*) { return std::max(x[0], x[1]); },
       .wgsl = "max($0, $1)",
       .derivative = [](D d) -> Terms {
         return {d.g * is_less(d.x[1], d.x[0]), d.g * is_less(d.x[0], d.x[1])};
       }},
      {.name = "pow",
       .arity = 2,
       .value = [](const double* x, const double*) { return std::pow(x[0], x[1]); },
       .wgsl = "act_pow($0, $1)",
       .derivative = pow_derivative},
  };
}

std::vector<Elementwise> conversions() {
  return {
      {.name = "affine",  // x * scale + shift
       .attrs = {{"scale", 1}, {"shift", 0}},
       .value = [](const double* x, const double* a) { return *x * a[0] + a[1]; },
       .wgsl = "($0 * $scale + $shift)",
       .derivative = [](D d) -> Terms { return {affine(d.g, d.attrs[0])}; },
       .as_affine = [](const double* a, size_t, double) -> Line {
         return ScaleShift{a[0], a[1]};
       }},
      // clamp(x * scale + shift, lo, hi) in f32, from any element type: prepares voxel intensities.
      {.name = "affine_clamp",
       .domain = Domain::All,
       .gives = Gives::Single,
       .attrs = {{"scale", 1}, {"shift", 0}, {"lo", -kLargest}, {"hi", kLargest}},
       .value = [](const double* x, const double* a) { return std::clamp(*x * a[0] + a[1], a[2], a[3]); },
       .wgsl = "clamp($F($0) * $scale + $shift, $F($lo), $F($hi))",
       .derivative = clamp_derivative,
       .check = check_bounds},
      // To another element type. From float to integer: truncates toward zero, clamps to the range, NaN becomes 0;
      // between integers: clamps. To f16 rounds to nearest even. To bool: whether it is not 0.
      {.name = "cast",
       .domain = Domain::All,
       .gives = Gives::Attribute,
       .attrs = {{"to", kRequired, {"f32", "f16", "i32", "u32", "u8", "i64", "bool"}}},
       .value = [](const double* x,
                   const double* a) { return round_to(static_cast<DType>(static_cast<int>(a[0])), *x); },
       .wgsl_of = [](const std::string& x, const double* a,
                     WgslType type) { return cast_wgsl(x, static_cast<DType>(static_cast<int>(a[0])), type); },
       .derivative = [](D d) -> Terms { return {d.g}; }},
  };
}

}  // namespace

const std::vector<Elementwise>& elementwise_rows() {
  static const std::vector<Elementwise> rows = [] {
    std::vector<Elementwise> all;
    for (auto* part : {activations, functions, pairs, conversions})
      for (Elementwise& row : part()) all.push_back(std::move(row));
    return all;
  }();
  return rows;
}

}  // namespace gyrus
