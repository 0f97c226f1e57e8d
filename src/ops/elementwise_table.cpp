#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/tensor.h"
#include "ops/cast.h"
#include "ops/elementwise.h"
#include "ops/random.h"

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

double mish(double x) { return x * std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))); }

// 1 inside (lo, hi), else 0.
Term is_within(Term x, double lo, double hi) {
  return apply("step", affine(x, 1, -lo)) * apply("step", affine(x, -1, hi));
}

std::vector<Elementwise> more_activations() {
  return {
      {.name = "mish",
       .value = [](const double* x, const double*) { return mish(*x); },
       .wgsl = "act_mish($0)",
       .derivative = [](D d) -> Terms {
         const Term t = apply("tanh", apply("softplus", d.x[0]));
         return {d.g * (t + d.x[0] * apply("sigmoid", d.x[0]) * affine(apply("square", t), -1, 1))};
       }},
      {.name = "hard_sigmoid",
       .attrs = {{"alpha", 0.2}, {"beta", 0.5}},
       .value = [](const double* x, const double* a) { return std::clamp(a[0] * *x + a[1], 0.0, 1.0); },
       .wgsl = "clamp($0 * $alpha + $beta, $T(0.0), $T(1.0))",
       .derivative = [](D d) -> Terms {
         return {d.g * affine(is_within(affine(d.x[0], d.attrs[0], d.attrs[1]), 0, 1), d.attrs[0])};
       }},
      {.name = "hard_swish",  // x * clamp(x / 6 + 1/2, 0, 1)
       .value = [](const double* x, const double*) { return *x * std::clamp(*x / 6 + 0.5, 0.0, 1.0); },
       .wgsl = "($0 * clamp($0 * (1.0 / 6.0) + 0.5, $T(0.0), $T(1.0)))",
       .derivative = [](D d) -> Terms {
         const Term inside = is_within(d.x[0], -3, 3);
         return {d.g * (inside * affine(d.x[0], 1.0 / 3, 0.5) + apply("step", affine(d.x[0], 1, -3)))};
       }},
      {.name = "selu",
       .attrs = {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}},
       .value = [](const double* x, const double* a) { return a[1] * (*x < 0 ? a[0] * std::expm1(*x) : *x); },
       .wgsl = "($gamma * act_elu($0, $alpha))",
       .derivative = [](D d) -> Terms {
         const Term above = apply("step", d.x[0]);
         const Term below = affine(apply("exp", -apply("relu", -d.x[0])), d.attrs[0]);
         return {affine(d.g, d.attrs[1]) * (below + above * affine(below, -1, 1))};
       }},
      {.name = "celu",
       .attrs = {{"alpha", 1}},
       .value = [](const double* x, const double* a) { return *x < 0 ? a[0] * std::expm1(*x / a[0]) : *x; },
       .wgsl = "select($0, $alpha * act_expm1(min($0 / $alpha, $T(0.0))), $0 < $T(0.0))",
       .derivative = [](D d) -> Terms {
         const Term below = apply("exp", affine(-apply("relu", -d.x[0]), 1 / d.attrs[0]));
         return {d.g * below};
       },
       .check =
           [](const Node& node, const double* a) {
             if (a[0] <= 0) fail(ErrorCode::InvalidGraph, node.op, "alpha is ", a[0], ", expected a positive number");
           }},
      {.name = "softsign",
       .value = [](const double* x, const double*) { return *x / (1 + std::abs(*x)); },
       .wgsl = "($0 / (1.0 + abs($0)))",
       .derivative = [](D d) -> Terms { return {d.g / apply("square", affine(apply("abs", d.x[0]), 1, 1))}; }},
      {.name = "relu6",
       .value = [](const double* x, const double*) { return std::clamp(*x, 0.0, 6.0); },
       .wgsl = "clamp($0, $T(0.0), $T(6.0))",
       .derivative = [](D d) -> Terms { return {d.g * is_within(d.x[0], 0, 6)}; }},
      {.name = "detach",
       .domain = Domain::All,
       .value = [](const double* x, const double*) { return *x; },
       .wgsl = "$0",
       .derivative = [](D) -> Terms { return {{}}; },
       .as_affine = [](const double*, size_t, double) -> Line { return ScaleShift{}; }},
      {.name = "thresholded_relu",
       .attrs = {{"alpha", 1}},
       .value = [](const double* x, const double* a) { return *x > a[0] ? *x : 0; },
       .wgsl = "select($T(0.0), $0, $0 > $T($alpha))",
       .derivative = [](D d) -> Terms { return {d.g * apply("step", affine(d.x[0], 1, -d.attrs[0]))}; }},
      {.name = "shrink",  // toward 0 by `bias`; 0 within `lambd`
       .attrs = {{"lambd", 0.5}, {"bias", 0}},
       .value = [](const double* x, const double* a) { return *x < -a[0]  ? *x + a[1]
                                                              : *x > a[0] ? *x - a[1]
                                                                          : 0; },
       .wgsl = "select(select($T(0.0), $0 - $bias, $0 > $T($lambd)), $0 + $bias, $0 < -$T($lambd))",
       .derivative = [](D d) -> Terms {
         return {d.g *
                 (apply("step", affine(d.x[0], 1, -d.attrs[0])) + apply("step", affine(d.x[0], -1, -d.attrs[0])))};
       }},
      {.name = "prelu",  // x, slope
       .arity = 2,
       .value = [](const double* x, const double*) { return x[0] < 0 ? x[0] * x[1] : x[0]; },
       .wgsl = "select($0, $0 * $1, $0 < $T(0.0))",
       .derivative = [](D d) -> Terms {
         const Term below = apply("step", -d.x[0]), above = affine(below, -1, 1);
         return {d.g * (above + below * d.x[1]), d.g * below * d.x[0]};
       }},
  };
}

// Steps: their slope is 0.
std::vector<Term> flat(const Chain& d) { return {affine(d.g, 0)}; }

// 1 - x² without the digits that are lost near ±1.
Term one_less_square(Term x) { return affine(x, -1, 1) * affine(x, 1, 1); }

std::vector<Elementwise> trigonometry() {
  return {
      {.name = "sin",
       .value = [](const double* x, const double*) { return std::sin(*x); },
       .wgsl = "act_sin($0)",
       .derivative = [](D d) -> Terms { return {d.g * apply("cos", d.x[0])}; }},
      {.name = "cos",
       .value = [](const double* x, const double*) { return std::cos(*x); },
       .wgsl = "act_cos($0)",
       .derivative = [](D d) -> Terms { return {-(d.g * apply("sin", d.x[0]))}; }},
      {.name = "tan",
       .value = [](const double* x, const double*) { return std::tan(*x); },
       .wgsl = "(act_sin($0) / act_cos($0))",
       .derivative = [](D d) -> Terms { return {d.g * affine(apply("square", d.y), 1, 1)}; }},
      {.name = "asin",
       .value = [](const double* x, const double*) { return std::asin(*x); },
       .wgsl = "act_asin($0)",
       .derivative = [](D d) -> Terms { return {d.g * apply("rsqrt", one_less_square(d.x[0]))}; }},
      {.name = "acos",
       .value = [](const double* x, const double*) { return std::acos(*x); },
       .wgsl = "act_acos($0)",
       .derivative = [](D d) -> Terms { return {-(d.g * apply("rsqrt", one_less_square(d.x[0])))}; }},
      {.name = "atan",
       .value = [](const double* x, const double*) { return std::atan(*x); },
       .wgsl = "act_atan($0)",
       .derivative = [](D d) -> Terms { return {d.g / affine(apply("square", d.x[0]), 1, 1)}; }},
      {.name = "sinh",
       .value = [](const double* x, const double*) { return std::sinh(*x); },
       .wgsl = "act_sinh($0)",
       .derivative = [](D d) -> Terms { return {d.g * apply("cosh", d.x[0])}; }},
      {.name = "cosh",
       .value = [](const double* x, const double*) { return std::cosh(*x); },
       .wgsl = "act_cosh($0)",
       .derivative = [](D d) -> Terms { return {d.g * apply("sinh", d.x[0])}; }},
      {.name = "asinh",
       .value = [](const double* x, const double*) { return std::asinh(*x); },
       .wgsl = "act_asinh($0)",
       .derivative = [](D d) -> Terms { return {d.g * apply("rsqrt", affine(apply("square", d.x[0]), 1, 1))}; }},
      {.name = "acosh",
       .value = [](const double* x, const double*) { return std::acosh(*x); },
       .wgsl = "act_acosh($0)",
       .derivative = [](D d) -> Terms { return {d.g * apply("rsqrt", -one_less_square(d.x[0]))}; }},
      {.name = "atanh",
       .value = [](const double* x, const double*) { return std::atanh(*x); },
       .wgsl = "act_atanh($0)",
       .derivative = [](D d) -> Terms { return {d.g / one_less_square(d.x[0])}; }},
      {.name = "atan2",  // of y, x: the angle of (x, y)
       .arity = 2,
       .value = [](const double* x, const double*) { return std::atan2(x[0], x[1]); },
       .wgsl = "act_atan2($0, $1)",
       .derivative = [](D d) -> Terms {
         const Term scaled = d.g / (apply("square", d.x[0]) + apply("square", d.x[1]));
         return {scaled * d.x[1], -(scaled * d.x[0])};
       }},
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
      {.name = "log1p",
       .value = [](const double* x, const double*) { return std::log1p(*x); },
       .wgsl = "act_log1p($0)",
       .derivative = [](D d) -> Terms { return {d.g / affine(d.x[0], 1, 1)}; }},
      {.name = "expm1",
       .value = [](const double* x, const double*) { return std::expm1(*x); },
       .wgsl = "act_expm1($0)",
       .derivative = [](D d) -> Terms { return {d.g * affine(d.y, 1, 1)}; }},
      {.name = "erf",
       .value = [](const double* x, const double*) { return std::erf(*x); },
       .wgsl = "act_erf($0)",
       .derivative = [](D d) -> Terms {
         return {d.g * affine(apply("exp", -apply("square", d.x[0])), 1.12837916709551257390)};
       }},
      {.name = "reciprocal",
       .value = [](const double* x, const double*) { return 1 / *x; },
       .wgsl = "(1.0 / $0)",
       .derivative = [](D d) -> Terms { return {-(d.g * apply("square", d.y))}; }},
      {.name = "round",  // halves to the even neighbour
       .value = [](const double* x, const double*) { return std::nearbyint(*x); },
       .wgsl = "round($0)",
       .derivative = flat},
      {.name = "floor",
       .value = [](const double* x, const double*) { return std::floor(*x); },
       .wgsl = "floor($0)",
       .derivative = flat},
      {.name = "ceil",
       .value = [](const double* x, const double*) { return std::ceil(*x); },
       .wgsl = "ceil($0)",
       .derivative = flat},
      {.name = "trunc",
       .value = [](const double* x, const double*) { return std::trunc(*x); },
       .wgsl = "trunc($0)",
       .derivative = flat},
      {.name = "sign",
       .domain = Domain::Signed,
       .value = [](const double* x, const double*) { return static_cast<double>((*x > 0) - (*x < 0)); },
       .wgsl = "sign($0)",
       .derivative = flat},
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
       .word = [](uint32_t a, uint32_t b) { return a + b; },
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
       .word = [](uint32_t a, uint32_t b) { return a - b; },
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
       .word = [](uint32_t a, uint32_t b) { return a * b; },
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

// A row that compares two operands of any element type.
Elementwise comparison(std::string_view name, double (*value)(const double*, const double*), std::string_view wgsl) {
  return {.name = name, .arity = 2, .domain = Domain::All, .gives = Gives::Truth, .value = value, .wgsl = wgsl};
}

// A row over truth values, 0 and 1.
Elementwise logical(std::string_view name, size_t arity, double (*value)(const double*, const double*),
                    std::string_view wgsl) {
  return {.name = name, .arity = arity, .domain = Domain::Truth, .gives = Gives::Truth, .value = value, .wgsl = wgsl};
}

Elementwise bitwise(std::string_view name, double (*value)(const double*, const double*), std::string_view wgsl) {
  return {.name = name, .arity = 2, .domain = Domain::Integers, .value = value, .wgsl = wgsl};
}

int64_t whole(double x) { return static_cast<int64_t>(x); }

// Division and remainders by 0 are undefined for integers; shifts by 32 and more too, and shift_left is for u32.
std::vector<Elementwise> logic() {
  return {
      comparison(
          "equal", [](const double* x, const double*) { return x[0] == x[1] ? 1.0 : 0.0; },
          "select($U(0u), $U(1u), $0 == $1)"),
      comparison(
          "less", [](const double* x, const double*) { return x[0] < x[1] ? 1.0 : 0.0; },
          "select($U(0u), $U(1u), $0 < $1)"),
      comparison(
          "less_equal", [](const double* x, const double*) { return x[0] <= x[1] ? 1.0 : 0.0; },
          "select($U(0u), $U(1u), $0 <= $1)"),
      comparison(
          "greater", [](const double* x, const double*) { return x[0] > x[1] ? 1.0 : 0.0; },
          "select($U(0u), $U(1u), $0 > $1)"),
      comparison(
          "greater_equal", [](const double* x, const double*) { return x[0] >= x[1] ? 1.0 : 0.0; },
          "select($U(0u), $U(1u), $0 >= $1)"),
      // By bits, since compilers may assume that there is neither.
      {.name = "isnan",
       .gives = Gives::Truth,
       .value = [](const double* x, const double*) { return std::isnan(*x) ? 1.0 : 0.0; },
       .wgsl = "select($U(0u), $U(1u), (bitcast<$U>($0) & $U(0x7fffffffu)) > $U(0x7f800000u))"},
      {.name = "isinf",
       .gives = Gives::Truth,
       .attrs = {{"negative", 1}, {"positive", 1}},
       .value = [](const double* x,
                   const double* a) { return std::isinf(*x) && (*x < 0 ? a[0] : a[1]) != 0 ? 1.0 : 0.0; },
       .wgsl = "select(select($U(0u), $U($positive), bitcast<$U>($0) == $U(0x7f800000u)), $U($negative), "
               "bitcast<$U>($0) == $U(0xff800000u))"},
      logical(
          "logical_not", 1, [](const double* x, const double*) { return *x == 0 ? 1.0 : 0.0; }, "($U(1u) - $0)"),
      logical(
          "logical_and", 2, [](const double* x, const double*) { return x[0] * x[1]; }, "($0 & $1)"),
      logical(
          "logical_or", 2, [](const double* x, const double*) { return std::max(x[0], x[1]); }, "($0 | $1)"),
      logical(
          "logical_xor", 2, [](const double* x, const double*) { return x[0] != x[1] ? 1.0 : 0.0; }, "($0 ^ $1)"),
      bitwise(
          "bit_and", [](const double* x, const double*) { return static_cast<double>(whole(x[0]) & whole(x[1])); },
          "($0 & $1)"),
      bitwise(
          "bit_or", [](const double* x, const double*) { return static_cast<double>(whole(x[0]) | whole(x[1])); },
          "($0 | $1)"),
      bitwise(
          "bit_xor", [](const double* x, const double*) { return static_cast<double>(whole(x[0]) ^ whole(x[1])); },
          "($0 ^ $1)"),
      bitwise(
          "shift_left",
          [](const double* x, const double*) { return std::fmod(std::ldexp(x[0], static_cast<int>(x[1])), 0x1p32); },
          "($0 << $U($1))"),
      bitwise(
          "shift_right",
          [](const double* x, const double*) { return std::floor(std::ldexp(x[0], -static_cast<int>(x[1]))); },
          "($0 >> $U($1))"),
      // The bits of a single as a whole number, and back.
      {.name = "to_bits",
       .gives = Gives::Word,
       .value = [](const double* x,
                   const double*) { return static_cast<double>(bits_as<uint32_t>(static_cast<float>(*x))); },
       .wgsl = "bitcast<$U>($0)"},
      {.name = "from_bits",
       .domain = Domain::Integers,
       .gives = Gives::Single,
       .value = [](const double* x, const double*) { return double{bits_as<float>(static_cast<uint32_t>(whole(*x)))}; },
       .wgsl = "bitcast<$F>($0)"},
      bitwise(
          "idiv", [](const double* x, const double*) { return std::trunc(x[0] / x[1]); }, "($0 / $1)"),
      {.name = "mod",  // the remainder with the sign of the divisor
       .arity = 2,
       .domain = Domain::Numbers,
       .value = [](const double* x, const double*) { return x[0] - x[1] * std::floor(x[0] / x[1]); },
       // Unsigned numbers must not pass their largest, so that the divisor is added only where signs differ.
       .wgsl = "select($0 % $1, $0 % $1 + $1, ($0 % $1 != $T(0)) & (($0 % $1 < $T(0)) != ($1 < $T(0))))",
       .derivative = [](D d) -> Terms {
         return {d.g, -(d.g * apply("floor", d.x[0] / d.x[1]))};
       }},
      {.name = "fmod",  // with the sign of the dividend
       .arity = 2,
       .domain = Domain::Numbers,
       .value = [](const double* x, const double*) { return std::fmod(x[0], x[1]); },
       .wgsl = "($0 % $1)",
       .derivative = [](D d) -> Terms {
         return {d.g, -(d.g * apply("trunc", d.x[0] / d.x[1]))};
       }},
      {.name = "where",  // where the first operand is true the second, else the third
       .arity = 3,
       .domain = Domain::All,
       .chooses = true,
       .value = [](const double* x, const double*) { return x[0] != 0 ? x[1] : x[2]; },
       .wgsl = "select($2, $1, $0 != $U(0u))",
       .derivative = [](D d) -> Terms {
         const Term none = affine(d.g, 0);
         return {{}, apply("where", d.x[0], d.g, none), apply("where", d.x[0], none, d.g)};
       }},
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
    for (auto* part : {activations, more_activations, functions, trigonometry, pairs, logic, conversions, random_rows})
      for (Elementwise& row : part()) all.push_back(std::move(row));
    return all;
  }();
  return rows;
}

}  // namespace gyrus
