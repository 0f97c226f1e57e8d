// Blocks of sums in registers, which both engines of convolution are made of. Included once for each instruction set.
#if defined(GYRUS_CPU_CONV_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GYRUS_CPU_CONV_SUMS_INL_H_
#undef GYRUS_CPU_CONV_SUMS_INL_H_
#else
#define GYRUS_CPU_CONV_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "cpu/conv_parts.h"

HWY_BEFORE_NAMESPACE();
namespace gyrus::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;

// Sums of channels × vectors that fit the registers beside the vectors of a row and a weight.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
constexpr int kChannels = 6, kVectors = 4;
#else
constexpr int kChannels = 6, kVectors = 2;
#endif

inline int64_t lanes() { return static_cast<int64_t>(hn::Lanes(Floats())); }

// The first `count` elements, zeros behind them; reads no others.
HWY_INLINE Vector load_some(const float* from, int64_t count) {
  const Floats d;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#else
  HWY_ALIGN float all[hn::MaxLanes(Floats())] = {};
  std::memcpy(all, from, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(d, all);
#endif
}

HWY_INLINE void store_some(Vector value, float* to, int64_t count) {
  const Floats d;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX2
  hn::BlendedStore(value, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else
  HWY_ALIGN float all[hn::MaxLanes(Floats())];
  hn::Store(value, d, all);
  std::memcpy(to, all, static_cast<size_t>(count) * sizeof(float));
#endif
}

// A row that is multiplied, and the number of its first tap among the weights.
struct RowTap {
  const float* row;
  int64_t tap;
};

struct Sums {
  const RowTap* rows = nullptr;
  int64_t count = 0;
  int64_t taps = 1, step = 1;      // of each row, and the elements between them
  const float* weights = nullptr;  // [tap][channel of the block]
  const float* bias = nullptr;     // of the block's channels
  bool adds = false;               // to what is there, instead of to the bias
};

// out[o · stride + x] = bias[o] + Σ weight[tap][o] · row[offset + x + tap · step] for V vectors of x.
template <int O, int V>
HWY_NOINLINE void sum_block(const Sums& sums, int64_t offset, float* out, int64_t stride) {
  const Floats d;
  const int64_t n = lanes();
  Vector all[O][V];
  for (int o = 0; o < O; ++o)
    for (int v = 0; v < V; ++v)
      all[o][v] = sums.adds ? hn::LoadU(d, out + o * stride + v * n) : hn::Set(d, sums.bias[o]);
  for (int64_t r = 0; r < sums.count; ++r) {
    const float* from = sums.rows[r].row + offset;
    const float* weights = sums.weights + sums.rows[r].tap * O;
    for (int64_t k = 0; k < sums.taps; ++k, from += sums.step, weights += O) {
      Vector row[V];
      for (int v = 0; v < V; ++v) row[v] = hn::LoadU(d, from + v * n);
      for (int o = 0; o < O; ++o) {
        const Vector weight = hn::Set(d, weights[o]);
        for (int v = 0; v < V; ++v) all[o][v] = hn::MulAdd(weight, row[v], all[o][v]);
      }
    }
  }
  for (int o = 0; o < O; ++o)
    for (int v = 0; v < V; ++v) hn::StoreU(all[o][v], d, out + o * stride + v * n);
}

using SumBlock = void (*)(const Sums&, int64_t, float*, int64_t);

template <int O>
SumBlock sum_block_of(int64_t vectors) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
  if (vectors == 4) return sum_block<O, 4>;
  if (vectors == 3) return sum_block<O, 3>;
#endif
  return vectors == 2 ? sum_block<O, 2> : sum_block<O, 1>;
}

// `vectors` of a row, in blocks of nearly equal size.
inline void sum_row(const Sums& sums, int64_t channels, int64_t offset, int64_t vectors, float* out, int64_t stride) {
  const int64_t blocks = (vectors + kVectors - 1) / kVectors;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = vectors * b / blocks, count = vectors * (b + 1) / blocks - begin;
    const int64_t at = begin * lanes();
    SumBlock block = nullptr;
    switch (channels) {
      case 1: block = sum_block_of<1>(count); break;
      case 2: block = sum_block_of<2>(count); break;
      case 3: block = sum_block_of<3>(count); break;
      case 4: block = sum_block_of<4>(count); break;
      case 5: block = sum_block_of<5>(count); break;
      default: block = sum_block_of<6>(count); break;
    }
    block(sums, offset + at, out + at, stride);
  }
}

inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace gyrus::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // GYRUS_CPU_CONV_SUMS_INL_H_
