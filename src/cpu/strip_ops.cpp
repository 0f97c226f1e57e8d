// Vector loops over strips, compiled for every instruction set and chosen at run time. Functions are accurate to a few
// units in the last place of f32.
#include "cpu/strip_ops.h"

#include <cmath>
#include <limits>

// Between SSE4, AVX2 and AVX-512 little is won by more.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/strip_ops.cpp"
#include <hwy/foreach_target.h>
// Behind foreach_target.h:
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gyrus::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;

// f(d, vectors…) over all elements, the last few one by one.
template <size_t kArity, class F>
HWY_INLINE void each(const StripCall& call, F f) {
  const auto* a = static_cast<const float*>(call.in[0]);
  const auto* b = static_cast<const float*>(call.in[kArity > 1 ? 1 : 0]);
  auto* out = static_cast<float*>(call.out);
  const Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= call.count; i += lanes) {
    if constexpr (kArity == 1)
      hn::StoreU(f(d, hn::LoadU(d, a + i)), d, out + i);
    else
      hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
  const One one;
  for (; i < call.count; ++i) {
    if constexpr (kArity == 1)
      hn::StoreU(f(one, hn::LoadU(one, a + i)), one, out + i);
    else
      hn::StoreU(f(one, hn::LoadU(one, a + i), hn::LoadU(one, b + i)), one, out + i);
  }
}

// NaN stays. (Highway's comparisons by "not equal" do not see it on AVX2 and AVX-512, minimum and maximum lose it.)
template <class D, class V>
HWY_INLINE V clamp_of(D, V x, V least, V most) {
  return hn::IfThenElse(hn::Lt(x, least), least, hn::IfThenElse(hn::Lt(most, x), most, x));
}

// exp with the ends that Highway's leaves open: 0 below and infinity above, NaN stays.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  const V most = hn::Set(d, 88.7228f);
  V y = hn::Exp(d, hn::Min(hn::Max(x, hn::Set(d, -104.0f)), most));
  y = hn::IfThenElse(hn::Gt(x, most), hn::Set(d, std::numeric_limits<float>::infinity()), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V expm1_of(D d, V x) {
  const V y = hn::Expm1(d, hn::Min(hn::Max(x, hn::Set(d, -88.0f)), hn::Set(d, 88.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V sigmoid_of(D d, V x) {
  // e / (1 + e) of -|x| keeps the digits of the left tail.
  const V one = hn::Set(d, 1.0f);
  const V e = exp_of(d, hn::Neg(hn::Abs(x)));
  const V y = hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V tanh_of(D d, V x) {
  // e = expm1(-2|x|): -e / (e + 2).
  const V a = hn::Abs(x);
  const V e = expm1_of(d, hn::Mul(a, hn::Set(d, -2.0f)));
  const V t = hn::Div(hn::Neg(e), hn::Add(e, hn::Set(d, 2.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(t, x));
}

// Σ c[i] tⁱ, the highest first.
template <class D, class V, size_t kCount>
HWY_INLINE V polynomial(D d, V t, const float (&c)[kCount]) {
  V sum = hn::Set(d, c[0]);
  for (size_t i = 1; i < kCount; ++i) sum = hn::MulAdd(sum, t, hn::Set(d, c[i]));
  return sum;
}

// erfc(a) exp(a²) for a >= 0 as a polynomial in (a - 3.75) / (a + 3.75), a Chebyshev fit of degree 12.
template <class D, class V>
HWY_INLINE V scaled_erfc(D d, V a) {
  static constexpr float kFit[] = {2.20467185e-05f, -0.000224116747f, 0.000330167457f, 0.00167591222f, -0.00977008718f,
                                   0.0284092524f,   -0.0586854405f,   0.0922907696f,   -0.108805228f,  0.08227842f,
                                   0.00358549531f,  -0.140240658f,    1.23751263f};
  const V k = hn::Set(d, 3.75f);
  const V t = hn::Div(hn::Sub(a, k), hn::Add(a, k));
  return hn::Div(polynomial(d, t, kFit), hn::MulAdd(hn::Set(d, 2.0f), a, hn::Set(d, 1.0f)));
}

// exp(-a²) with the rounding of a² made good.
template <class D, class V>
HWY_INLINE V exp_minus_square(D d, V a) {
  const V square = hn::Mul(a, a);
  const V rest = hn::MulSub(a, a, square);
  const V e = exp_of(d, hn::Neg(square));
  return hn::NegMulAdd(e, rest, e);
}

template <class D, class V>
HWY_INLINE V erf_of(D d, V x) {
  // x times a polynomial in x² below 1, 1 - erfc above.
  static constexpr float kSmall[] = {1.0595288e-06f,   -1.39117056e-05f, 0.000119569474f,
                                     -0.000854267059f, 0.00522378501f,   -0.0268661336f,
                                     0.112837913f,     -0.376126389f,    1.12837917f};
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 10.0f)), one = hn::Set(d, 1.0f);
  const V near = hn::Mul(x, polynomial(d, hn::Mul(a, a), kSmall));
  const V far = hn::CopySign(hn::Sub(one, hn::Mul(scaled_erfc(d, a), exp_minus_square(d, a))), x);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Lt(a, one), near, far));
}

// erfc(|x| / √2) / 2 turned to the side of x: both tails keep their digits.
template <class D, class V>
HWY_INLINE V normal_cdf_of(D d, V x) {
  const V half = hn::Set(d, 0.5f);
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 20.0f));
  const V u = hn::Mul(a, hn::Set(d, 0.70710678118654752f));
  // exp(-x²/2) from x itself: u is rounded.
  const V square = hn::Mul(a, a), rest = hn::MulSub(a, a, square);
  V e = exp_of(d, hn::Mul(square, hn::Set(d, -0.5f)));
  e = hn::NegMulAdd(e, hn::Mul(rest, half), e);
  const V tail = hn::Mul(half, hn::Mul(scaled_erfc(d, u), e));
  const V y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

#define GYRUS_UNARY(name, expression)                                           \
  HWY_INLINE void name(const StripCall& call) {                                 \
    each<1>(call, [&]([[maybe_unused]] auto d, auto x) { return expression; }); \
  }
#define GYRUS_BINARY(name, expression)                                                  \
  HWY_INLINE void name(const StripCall& call) {                                         \
    each<2>(call, [&]([[maybe_unused]] auto d, auto x, auto y) { return expression; }); \
  }
#define GYRUS_NUMBER(i) hn::Set(d, static_cast<float>(call.numbers[i]))

GYRUS_UNARY(op_relu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x))
GYRUS_UNARY(op_leaky_relu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, GYRUS_NUMBER(0)), x))
GYRUS_UNARY(op_elu,
            hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(GYRUS_NUMBER(0), expm1_of(d, hn::Min(x, hn::Zero(d)))), x))
GYRUS_UNARY(op_gelu, hn::Mul(x, normal_cdf_of(d, x)))
GYRUS_UNARY(op_gelu_tanh, hn::Mul(x, sigmoid_of(d, hn::Mul(x, hn::MulAdd(hn::Set(d, 0.0713548162726f), hn::Mul(x, x),
                                                                         hn::Set(d, 1.5957691216057308f))))))
GYRUS_UNARY(op_silu, hn::Mul(x, sigmoid_of(d, x)))
GYRUS_UNARY(op_sigmoid, sigmoid_of(d, x))
GYRUS_UNARY(op_tanh, tanh_of(d, x))
GYRUS_UNARY(op_exp, exp_of(d, x))
GYRUS_UNARY(op_sqrt, hn::Sqrt(x))
GYRUS_UNARY(op_rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))
GYRUS_UNARY(op_erf, erf_of(d, x))
GYRUS_UNARY(op_normal_cdf, normal_cdf_of(d, x))
GYRUS_UNARY(op_reciprocal, hn::Div(hn::Set(d, 1.0f), x))
GYRUS_UNARY(op_neg, hn::Neg(x))
GYRUS_UNARY(op_abs, hn::Abs(x))
GYRUS_UNARY(op_square, hn::Mul(x, x))
GYRUS_UNARY(op_step, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f), hn::Zero(d)))
GYRUS_UNARY(op_affine, hn::MulAdd(x, GYRUS_NUMBER(0), GYRUS_NUMBER(1)))
GYRUS_UNARY(op_affine_clamp,
            clamp_of(d, hn::MulAdd(x, GYRUS_NUMBER(0), GYRUS_NUMBER(1)), GYRUS_NUMBER(2), GYRUS_NUMBER(3)))
GYRUS_UNARY(op_hard_sigmoid,
            clamp_of(d, hn::MulAdd(x, GYRUS_NUMBER(0), GYRUS_NUMBER(1)), hn::Zero(d), hn::Set(d, 1.0f)))
GYRUS_UNARY(op_hard_swish, hn::Mul(x, clamp_of(d, hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f)), hn::Zero(d),
                                               hn::Set(d, 1.0f))))
GYRUS_UNARY(op_relu6, clamp_of(d, x, hn::Zero(d), hn::Set(d, 6.0f)))
GYRUS_UNARY(op_copy, hn::Or(x, hn::Zero(d)))
GYRUS_BINARY(op_add, hn::Add(x, y))
GYRUS_BINARY(op_sub, hn::Sub(x, y))
GYRUS_BINARY(op_mul, hn::Mul(x, y))
GYRUS_BINARY(op_div, hn::Div(x, y))
GYRUS_BINARY(op_min, hn::IfThenElse(hn::Lt(y, x), y, x))
GYRUS_BINARY(op_max, hn::IfThenElse(hn::Lt(x, y), y, x))
GYRUS_BINARY(op_prelu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, y), x))

StripOp Find(std::string_view row, const double* numbers) {
  struct Entry {
    std::string_view name;
    StripOp op;
  };
  static constexpr Entry kOps[] = {
      {"relu", op_relu},       {"leaky_relu", op_leaky_relu},
      {"elu", op_elu},         {"silu", op_silu},
      {"sigmoid", op_sigmoid}, {"tanh", op_tanh},
      {"exp", op_exp},         {"sqrt", op_sqrt},
      {"rsqrt", op_rsqrt},     {"erf", op_erf},
      {"neg", op_neg},         {"reciprocal", op_reciprocal},
      {"abs", op_abs},         {"normal_cdf", op_normal_cdf},
      {"square", op_square},   {"affine", op_affine},
      {"step", op_step},       {"affine_clamp", op_affine_clamp},
      {"add", op_add},         {"hard_sigmoid", op_hard_sigmoid},
      {"sub", op_sub},         {"hard_swish", op_hard_swish},
      {"mul", op_mul},         {"relu6", op_relu6},
      {"div", op_div},         {"detach", op_copy},
      {"min", op_min},         {"max", op_max},
      {"prelu", op_prelu},     {"cast", op_copy},
  };
  if (row == "gelu") return numbers[0] == 0 ? op_gelu : op_gelu_tanh;
  for (const Entry& entry : kOps)
    if (entry.name == row) return entry.op;
  return nullptr;
}

template <class D>
HWY_INLINE double in_double(D d, hn::VFromD<D> v) {
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  double sum = 0;
  for (size_t i = 0; i < hn::Lanes(d); ++i) sum += lanes[i];
  return sum;
}

Moments FindMoments(const float* x, int64_t count, float pivot) {
  const Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto p = hn::Set(d, pivot);
  auto sum = hn::Zero(d), squares = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::Sub(hn::LoadU(d, x + i), p);
    sum = hn::Add(sum, v);
    squares = hn::MulAdd(v, v, squares);
  }
  Moments m{in_double(d, sum), in_double(d, squares)};
  for (; i < count; ++i) {
    const double v = static_cast<double>(x[i]) - static_cast<double>(pivot);
    m.sum += v;
    m.squares += v * v;
  }
  return m;
}

void Normalize(const float* x, float* y, int64_t count, float mean, float scale, float shift) {
  StripCall call;
  call.in[0] = x;
  call.out = y;
  call.count = count;
  each<1>(call, [&](auto d, auto v) {
    return hn::MulAdd(hn::Sub(v, hn::Set(d, mean)), hn::Set(d, scale), hn::Set(d, shift));
  });
}

void Affine(const float* x, float* y, int64_t count, float mean, float scale, const float* gamma, const float* beta) {
  if (!gamma) {
    Normalize(x, y, count, mean, scale, 0);
  } else {
    StripCall call;
    call.in[0] = x;
    call.in[1] = gamma;
    call.out = y;
    call.count = count;
    each<2>(call, [&](auto d, auto v, auto g) {
      return hn::Mul(hn::Mul(hn::Sub(v, hn::Set(d, mean)), hn::Set(d, scale)), g);
    });
  }
  if (!beta) return;
  StripCall call;
  call.in[0] = y;
  call.in[1] = beta;
  call.out = y;
  call.count = count;
  each<2>(call, [&](auto, auto v, auto b) { return hn::Add(v, b); });
}

void PickLarger(const float* x, float* best, uint32_t* label, uint32_t index, int64_t count) {
  const Wide d;
  const hn::RebindToUnsigned<Wide> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mine = hn::Set(du, index);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, x + i), b = hn::LoadU(d, best + i);
    const auto larger = hn::Gt(v, b);
    hn::StoreU(hn::IfThenElse(larger, v, b), d, best + i);
    hn::StoreU(hn::IfThenElse(hn::RebindMask(du, larger), mine, hn::LoadU(du, label + i)), du, label + i);
  }
  for (; i < count; ++i) {
    if (!(x[i] > best[i])) continue;
    best[i] = x[i];
    label[i] = index;
  }
}

bool AllFinite(const float* x, int64_t count) {
  const Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);  // 0 · x is NaN where x is not finite
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::MulAdd(hn::Zero(d), hn::LoadU(d, x + i), sum);
  double rest = in_double(d, sum);
  for (; i < count; ++i) rest += 0.0 * static_cast<double>(x[i]);
  return rest == 0;
}

float Largest(const float* x, int64_t count) {
  const Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float most = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  if (count >= lanes) {
    auto wide = hn::LoadU(d, x);
    for (i = lanes; i + lanes <= count; i += lanes) wide = hn::Max(wide, hn::LoadU(d, x + i));
    HWY_ALIGN float kept[hn::MaxLanes(d)];
    hn::Store(wide, d, kept);
    for (int64_t k = 0; k < lanes; ++k) most = kept[k] > most ? kept[k] : most;
  }
  for (; i < count; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

double Sum(const float* x, int64_t count) { return FindMoments(x, count, 0).sum; }

double ExpStrip(const float* x, float* y, int64_t count, float shift) {
  StripCall call;
  call.in[0] = x;
  call.out = y;
  call.count = count;
  each<1>(call, [&](auto d, auto v) { return exp_of(d, hn::Sub(v, hn::Set(d, shift))); });
  return Sum(y, count);
}

void Scale(const float* x, float* y, int64_t count, float scale) {
  StripCall call;
  call.in[0] = x;
  call.out = y;
  call.count = count;
  each<1>(call, [&](auto d, auto v) { return hn::Mul(v, hn::Set(d, scale)); });
}

// Numbers of bits rather than instructions for halves, which not every set has and which treat NaN alike nowhere.
template <class D>
HWY_INLINE hn::Vec<D> singles_of(D d, const uint16_t* x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint16_t, D>(), x));
  const auto size = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fff)));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  // Exponents count from 15 there and from 127 here; what then is no half is infinite, or NaN.
  const auto value = hn::Mul(hn::BitCast(d, size), hn::Set(d, 0x1p112f));
  const auto most = hn::IfThenElseZero(hn::Ge(value, hn::Set(d, 65536.0f)), hn::BitCast(d, hn::Set(du, 0x7f800000)));
  return hn::Or(hn::Or(value, most), hn::BitCast(d, sign));
}

template <class D>
HWY_INLINE void store_halves(D d, hn::Vec<D> x, uint16_t* y) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, x);
  const auto size = hn::And(bits, hn::Set(du, 0x7fffffff));
  // Rounded where the last digit of a half stands, with the exponent from 15 on.
  const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<13>(hn::Add(hn::Add(size, odd), hn::Set(du, 0xc8000fff)));
  auto half = hn::Min(hn::BitCast(di, rounded), hn::Set(di, 0x7c00));
  // Below 2^-14 the last digit has the place that it has in a half.
  const auto shifted = hn::BitCast(di, hn::Add(hn::BitCast(d, size), hn::Set(d, 0.5f)));
  const auto small = hn::Sub(shifted, hn::BitCast(di, hn::Set(d, 0.5f)));
  half = hn::IfThenElse(hn::RebindMask(di, hn::Lt(hn::BitCast(d, size), hn::Set(d, 0x1p-14f))), small, half);
  half = hn::IfThenElse(hn::RebindMask(di, hn::IsNaN(x)), hn::Set(di, 0x7e00), half);
  half = hn::Or(half, hn::BitCast(di, hn::ShiftLeft<15>(hn::ShiftRight<31>(bits))));
  const hn::Rebind<uint16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, half), dh, y);
}

void WidenHalves(const uint16_t* x, float* y, int64_t count) {
  const Wide d;
  const One one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(singles_of(d, x + i), d, y + i);
  for (; i < count; ++i) hn::StoreU(singles_of(one, x + i), one, y + i);
}

void NarrowSingles(const float* x, uint16_t* y, int64_t count) {
  const Wide d;
  const One one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_halves(d, hn::LoadU(d, x + i), y + i);
  for (; i < count; ++i) store_halves(one, hn::LoadU(one, x + i), y + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace gyrus::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gyrus::cpu {

HWY_EXPORT(Find);
HWY_EXPORT(FindMoments);
HWY_EXPORT(Normalize);
HWY_EXPORT(Affine);
HWY_EXPORT(PickLarger);
HWY_EXPORT(AllFinite);
HWY_EXPORT(Largest);
HWY_EXPORT(Sum);
HWY_EXPORT(ExpStrip);
HWY_EXPORT(Scale);
HWY_EXPORT(WidenHalves);
HWY_EXPORT(NarrowSingles);

StripOp find_strip_op(std::string_view row, const double* numbers) { return HWY_DYNAMIC_DISPATCH(Find)(row, numbers); }
Moments moments(const float* x, int64_t count, float pivot) {
  return HWY_DYNAMIC_DISPATCH(FindMoments)(x, count, pivot);
}
void normalize_strip(const float* x, float* y, int64_t count, float mean, float scale, float shift) {
  HWY_DYNAMIC_DISPATCH(Normalize)(x, y, count, mean, scale, shift);
}
void affine_strip(const float* x, float* y, int64_t count, float mean, float scale, const float* gamma,
                  const float* beta) {
  HWY_DYNAMIC_DISPATCH(Affine)(x, y, count, mean, scale, gamma, beta);
}
void pick_larger(const float* x, float* best, uint32_t* label, uint32_t index, int64_t count) {
  HWY_DYNAMIC_DISPATCH(PickLarger)(x, best, label, index, count);
}
bool all_finite(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(AllFinite)(x, count); }
float strip_max(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(Largest)(x, count); }
double strip_sum(const float* x, int64_t count) { return HWY_DYNAMIC_DISPATCH(Sum)(x, count); }
double exp_strip(const float* x, float* y, int64_t count, float shift) {
  return HWY_DYNAMIC_DISPATCH(ExpStrip)(x, y, count, shift);
}
void scale_strip(const float* x, float* y, int64_t count, float scale) {
  HWY_DYNAMIC_DISPATCH(Scale)(x, y, count, scale);
}
void widen_halves(const uint16_t* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(WidenHalves)(x, y, count); }
void narrow_singles(const float* x, uint16_t* y, int64_t count) { HWY_DYNAMIC_DISPATCH(NarrowSingles)(x, y, count); }

namespace {
HWY_NOINLINE const char* chosen() {
  // The best one that this processor has among those compiled in.
  const int64_t best = HWY_SUPPORTED_TARGETS & HWY_TARGETS;
  return hwy::TargetName(best & -best);
}
}  // namespace

const char* instruction_set() { return chosen(); }

}  // namespace gyrus::cpu
#endif
