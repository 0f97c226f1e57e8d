// The gradient of a convolution in its weights: every tap is a sum of products over all voxels. An item is one input
// channel, one plane of taps and some output channels; it copies the planes of the input that it reads into scratch
// memory, with zeros where the volume ends, so that every tap is a contiguous run of lanes, and keeps the sums of some
// channels and taps in registers while it goes over a plane. Planes are added up in doubles, in their order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/conv_weights.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "cpu/conv_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gyrus::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
constexpr int kSlopes = 6;
#else
constexpr int kSlopes = 4;
#endif
constexpr int kTaps = 3;

// Rows that are multiplied: O of slopes, `slope_step` elements apart, and K of the input, `tap_step` apart.
struct Rows {
  const float* slopes = nullptr;
  const float* input = nullptr;
  int64_t slope_step = 0, tap_step = 0;
  int64_t next_slope = 0, next_input = 0;  // elements to the next row
  int64_t rows = 0, columns = 0;
};

// sums[o · taps + k] += Σ slope[o] · input[k].
template <int O, int K>
HWY_NOINLINE void add_products(const Rows& rows, double* sums, int64_t taps) {
  const Floats d;
  const int64_t n = lanes(), whole = rows.columns / n * n, rest = rows.columns - whole;
  Vector all[O][K];
  for (int o = 0; o < O; ++o)
    for (int k = 0; k < K; ++k) all[o][k] = hn::Zero(d);
  const float *slopes = rows.slopes, *input = rows.input;
  for (int64_t r = 0; r < rows.rows; ++r, slopes += rows.next_slope, input += rows.next_input) {
    const auto multiply = [&](int64_t x, auto&& slope_at) HWY_ATTR {
      Vector in[K];
      for (int k = 0; k < K; ++k) in[k] = hn::LoadU(d, input + k * rows.tap_step + x);
      for (int o = 0; o < O; ++o) {
        const Vector slope = slope_at(slopes + o * rows.slope_step + x);
        for (int k = 0; k < K; ++k) all[o][k] = hn::MulAdd(slope, in[k], all[o][k]);
      }
    };
    for (int64_t x = 0; x < whole; x += n) multiply(x, [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); });
    if (rest > 0) multiply(whole, [&](const float* at) HWY_ATTR { return load_some(at, rest); });
  }
  for (int o = 0; o < O; ++o)
    for (int k = 0; k < K; ++k) sums[o * taps + k] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, all[o][k])));
}

template <int O>
void add_taps(const Rows& rows, double* sums, int64_t taps, int64_t count) {
  if (count == 1) return add_products<O, 1>(rows, sums, taps);
  return count == 2 ? add_products<O, 2>(rows, sums, taps) : add_products<O, 3>(rows, sums, taps);
}

void add_block(const Rows& rows, int64_t slopes, double* sums, int64_t taps, int64_t count) {
  switch (slopes) {
    case 1: return add_taps<1>(rows, sums, taps, count);
    case 2: return add_taps<2>(rows, sums, taps, count);
    case 3: return add_taps<3>(rows, sums, taps, count);
    case 4: return add_taps<4>(rows, sums, taps, count);
    case 5: return add_taps<5>(rows, sums, taps, count);
    default: return add_taps<6>(rows, sums, taps, count);
  }
}

class WeightsItem {
 public:
  WeightsItem(const ConvShape& shape, const float* x, const float* g, int64_t item)
      : s_(shape), x_(x), g_(g), group_in_(s_.in_channels / s_.groups), group_out_(s_.out_channels / s_.groups) {
    plane_ = item % s_.kernel[0], item /= s_.kernel[0];
    channel_ = item % group_in_, item /= group_in_;
    const int64_t blocks = (group_out_ + kSlopes - 1) / kSlopes, group = item / blocks, block = item % blocks;
    first_ = group * group_out_ + group_out_ * block / blocks;
    count_ = group * group_out_ + group_out_ * (block + 1) / blocks - first_;
    input_channel_ = group * group_in_ + channel_;
    // With strides every tap of a row has a copy of its own.
    copies_ = s_.stride[2] == 1 ? 1 : s_.kernel[2];
    pitch_ = round_up(s_.output[2], lanes()) + (copies_ == 1 ? (s_.kernel[2] - 1) * s_.dilation[2] : 0);
    copy_ = thread_scratch(s_.input[1] * copies_ * pitch_);
    sums_.assign(static_cast<size_t>(count_ * taps()), 0);
  }

  void run(float* out) {
    for (int64_t n = 0; n < s_.batch; ++n)
      for (int64_t z = 0; z < s_.output[0]; ++z) {
        const int64_t from = z * s_.stride[0] + plane_ * s_.dilation[0] - s_.pad_lo[0];
        if (from < 0 || from >= s_.input[0]) continue;
        copy_plane(x_ + ((n * s_.in_channels + input_channel_) * s_.input[0] + from) * s_.input[1] * s_.input[2]);
        add_plane(g_ + ((n * s_.out_channels + first_) * s_.output[0] + z) * s_.output[1] * s_.output[2]);
      }
    const int64_t all = s_.kernel[0] * taps();
    for (int64_t o = 0; o < count_; ++o)
      for (int64_t t = 0; t < taps(); ++t)
        out[((first_ + o) * group_in_ + channel_) * all + plane_ * taps() + t] =
            static_cast<float>(sums_[static_cast<size_t>(o * taps() + t)]);
  }

 private:
  int64_t taps() const { return s_.kernel[1] * s_.kernel[2]; }

  // Column j of copy k of a row is column j · stride + k · dilation − pad; the only one holds all taps.
  void copy_plane(const float* plane) const {
    for (int64_t y = 0; y < s_.input[1]; ++y)
      for (int64_t k = 0; k < copies_; ++k) {
        const float* row = plane + y * s_.input[2];
        float* to = copy_ + (y * copies_ + k) * pitch_;
        const int64_t step = s_.stride[2], first = k * s_.dilation[2] - s_.pad_lo[2];
        const int64_t begin = std::clamp<int64_t>(first >= 0 ? 0 : (step - 1 - first) / step, 0, pitch_);
        const int64_t end = std::clamp<int64_t>((s_.input[2] - first + step - 1) / step, begin, pitch_);
        std::fill(to, to + begin, 0.0F);
        if (step == 1)
          std::copy(row + first + begin, row + first + end, to + begin);
        else
          for (int64_t j = begin; j < end; ++j) to[j] = row[first + j * step];
        std::fill(to + end, to + pitch_, 0.0F);
      }
  }

  void add_plane(const float* slopes) {
    Rows rows;
    rows.slope_step = s_.output[0] * s_.output[1] * s_.output[2];
    rows.tap_step = copies_ == 1 ? s_.dilation[2] : pitch_;
    rows.next_slope = s_.output[2];
    rows.next_input = s_.stride[1] * copies_ * pitch_;
    rows.columns = s_.output[2];
    for (int64_t j = 0; j < s_.kernel[1]; ++j) {
      const int64_t shift = j * s_.dilation[1] - s_.pad_lo[1], step = s_.stride[1];
      const int64_t begin = shift >= 0 ? 0 : (step - 1 - shift) / step;
      const int64_t end = std::min(s_.output[1], shift >= s_.input[1] ? 0 : (s_.input[1] - 1 - shift) / step + 1);
      rows.rows = end - begin;
      if (rows.rows <= 0) continue;
      rows.slopes = slopes + begin * s_.output[2];
      for (int64_t k = 0; k < s_.kernel[2]; k += kTaps) {
        rows.input = copy_ + (begin * step + shift) * copies_ * pitch_ + k * rows.tap_step;
        add_block(rows, count_, sums_.data() + j * s_.kernel[2] + k, taps(),
                  std::min<int64_t>(kTaps, s_.kernel[2] - k));
      }
    }
  }

  const ConvShape& s_;
  const float *x_, *g_;
  int64_t group_in_, group_out_;
  int64_t plane_ = 0, channel_ = 0, input_channel_ = 0;  // of taps; within its group; of all
  int64_t first_ = 0, count_ = 0;                        // output channels
  int64_t copies_ = 1, pitch_ = 0;                       // of a row; elements of one
  float* copy_ = nullptr;
  std::vector<double> sums_;  // [output channel][tap of the plane]
};

void weights_item(const ConvShape& shape, const float* x, const float* g, float* out, int64_t item) {
  WeightsItem(shape, x, g, item).run(out);
}

int64_t weights_items(const ConvShape& s) {
  const int64_t group_out = s.out_channels / s.groups;
  return s.groups * ((group_out + kSlopes - 1) / kSlopes) * (s.in_channels / s.groups) * s.kernel[0];
}

}  // namespace gyrus::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gyrus::cpu {

HWY_EXPORT(weights_item);
HWY_EXPORT(weights_items);

void run_conv_weights(const ConvShape& shape, const float* x, const float* g, float* out, ThreadPool& pool) {
  pool.parallel_for(HWY_DYNAMIC_DISPATCH(weights_items)(shape), [&](int64_t item) {
    HWY_DYNAMIC_DISPATCH(weights_item)(shape, x, g, out, item);
  });
}

}  // namespace gyrus::cpu
#endif
