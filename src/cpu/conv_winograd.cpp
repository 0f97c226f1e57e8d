// Convolution with three taps along H, and three or one along D, by Winograd's minimal filtering (Lavin and Gray, Fast
// algorithms for convolutional neural networks, 2015): along each of the two axes m outputs of a lattice of the
// dilation come from m + 2 products instead of 3m. Taps along W stay as they are, and lanes run along W: the transforms
// are sums of whole rows. F(4, 3) has the points 0, 1, −1, 1/2, −2 and infinity, which lose half as much as 0, ±1, ±2.
//
// An item is one tile of rows, or several side by side where rows are short:
//   1. rows of the input → scratch [point][channel][row], margins filled with zeros
//   2. for some blocks of output channels: products of each point, summed over channels and taps along W
//   3. these → rows of the result
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/conv_winograd.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "cpu/conv_sums-inl.h"
#include "cpu/strip_ops.h"

HWY_BEFORE_NAMESPACE();
namespace gyrus::cpu::HWY_NAMESPACE {

// Points of `M` outputs along an axis, in place; `step` vectors apart. M = 1: nothing to do.
template <int M>
HWY_INLINE void to_points(Vector* x, int step) {
  const Floats d;
  if constexpr (M == 2) {
    const Vector x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    x[0] = hn::Sub(x0, x2);
    x[step] = hn::Add(x1, x2);
    x[2 * step] = hn::Sub(x2, x1);
    x[3 * step] = hn::Sub(x3, x1);
  } else if constexpr (M == 4) {
    const Vector x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step];
    const Vector half = hn::Set(d, 0.5f), two = hn::Set(d, 2.0f), three_halves = hn::Set(d, 1.5f);
    const Vector five_halves = hn::Set(d, 2.5f);
    const Vector a = hn::Sub(x3, x1), b = hn::Sub(x4, x2);
    x[0] = hn::MulAdd(three_halves, a, hn::NegMulAdd(two, x2, hn::Add(x0, x4)));
    x[step] = hn::MulAdd(five_halves, x3, hn::MulAdd(half, x2, hn::Sub(x4, x1)));
    x[2 * step] = hn::MulAdd(half, x3, hn::NegMulAdd(five_halves, x2, hn::Add(x4, x1)));
    x[3 * step] = hn::MulAdd(two, a, b);
    x[4 * step] = hn::NegMulAdd(half, a, b);
    x[5 * step] = hn::MulAdd(three_halves, b, hn::NegMulAdd(two, x3, hn::Add(x1, x5)));
  }
}

// The M outputs from the sums of products at the points.
template <int M>
HWY_INLINE void from_points(Vector* x, int step) {
  const Floats d;
  if constexpr (M == 2) {
    const Vector x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    x[0] = hn::Add(hn::Add(x0, x1), x2);
    x[step] = hn::Add(hn::Sub(x1, x2), x3);
  } else if constexpr (M == 4) {
    const Vector x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step];
    const Vector sum = hn::Add(x1, x2), difference = hn::Sub(x1, x2);
    x[0] = hn::Add(hn::Add(x0, sum), hn::Add(x3, x4));
    x[step] = hn::NegMulAdd(hn::Set(d, 2.0f), x4, hn::MulAdd(hn::Set(d, 0.5f), x3, difference));
    x[2 * step] = hn::MulAdd(hn::Set(d, 4.0f), x4, hn::MulAdd(hn::Set(d, 0.25f), x3, sum));
    x[3 * step] = hn::Add(x5, hn::NegMulAdd(hn::Set(d, 8.0f), x4, hn::MulAdd(hn::Set(d, 0.125f), x3, difference)));
  }
}

template <int MD, int MH>
class WinogradItem {
 public:
  static constexpr int kD = MD == 1 ? 1 : MD + 2, kH = MH + 2, kPoints = kD * kH;

  WinogradItem(const ConvParts& parts, const ConvCall& call, int64_t item)
      : p_(parts), s_(parts.shape), t_(parts.winograd), call_(call), item_(item) {
    const auto tiles = static_cast<int64_t>(t_.tiles[1].size());
    at_ = locate(parts, item, static_cast<int64_t>(t_.tiles[0].size()), (tiles + t_.group - 1) / t_.group, t_.columns,
                 s_.output[2]);
    depth_ = t_.tiles[0][static_cast<size_t>(at_.plane)];
    first_tile_ = at_.rows * t_.group;
    tile_count_ = std::min(t_.group, tiles - first_tile_);
    group_in_ = s_.in_channels / s_.groups, group_out_ = s_.out_channels / s_.groups;
    span_ = at_.columns + (s_.kernel[2] - 1) * s_.dilation[2];
    vectors_ = ((tile_count_ - 1) * t_.pitch + at_.columns + lanes() - 1) / lanes();
    points_ = thread_scratch(p_.scratch);
    products_ = points_ + kPoints * group_in_ * t_.row;
    planes_ = products_ + kPoints * product_point();
    widened_ = planes_ + kPoints * t_.row;
    stage_ = widened_ + (s_.halves ? kH * t_.row : 0);
  }

  void run() {
    for (group_ = at_.group_begin; group_ < at_.group_end; ++group_) {
      for (int64_t tile = 0; tile < tile_count_; ++tile) transform_input(tile);
      for (int64_t begin = first_block(); begin < last_block(); begin += t_.batch) {
        const int64_t end = std::min(begin + t_.batch, last_block());
        for (int64_t b = begin; b < end; ++b) prefetch_output(b);
        sum_points(begin, end);
        for (int64_t b = begin; b < end; ++b)
          for (int64_t tile = 0; tile < tile_count_; ++tile)
            transform_output(b, tile, products_ + (block(b) - block(begin)) * t_.row);
      }
    }
    if (*call_.epilogue) finish();
  }

 private:
  int64_t first_block() const { return p_.parts[static_cast<size_t>(at_.part)]; }
  int64_t last_block() const { return p_.parts[static_cast<size_t>(at_.part) + 1]; }
  int64_t block(int64_t b) const { return p_.blocks[static_cast<size_t>(b)]; }
  int64_t first_channel() const { return at_.group_begin * group_out_ + block(first_block()); }
  int64_t last_channel() const { return (at_.group_end - 1) * group_out_ + block(last_block()); }
  const ConvTile& height(int64_t tile) const { return t_.tiles[1][static_cast<size_t>(first_tile_ + tile)]; }

  int64_t output_voxels() const { return s_.output[0] * s_.output[1] * s_.output[2]; }
  int64_t voxel(int64_t tile, int64_t i, int64_t j) const {
    const int64_t z = depth_.first + i * s_.dilation[0], y = height(tile).first + j * s_.dilation[1];
    return (z * s_.output[1] + y) * s_.output[2] + at_.column;
  }
  float* target(int64_t channel, int64_t tile, int64_t i, int64_t j) const {
    if (call_.output)
      return call_.output + (at_.batch * s_.out_channels + channel) * output_voxels() + voxel(tile, i, j);
    return stage_ + (channel - first_channel()) * stage_channel() + ((tile * MD + i) * MH + j) * t_.columns;
  }
  int64_t stage_channel() const { return t_.group * MD * MH * t_.columns; }
  int64_t target_stride() const { return call_.output ? output_voxels() : stage_channel(); }

  void transform_input(int64_t tile) const {
    const int64_t start = at_.column - s_.pad_lo[2];
    const int64_t begin = std::clamp<int64_t>(-start, 0, span_);
    const int64_t end = std::clamp<int64_t>(s_.input[2] - start, begin, span_);
    const int64_t plane = s_.input[1] * s_.input[2], map = s_.input[0] * plane;
    int64_t rows[kPoints];  // elements from the start of the input's map
    bool inside[kPoints];
    for (int i = 0; i < kD; ++i)
      for (int j = 0; j < kH; ++j) {
        const int64_t z = depth_.first + i * s_.dilation[0] - s_.pad_lo[0];
        const int64_t y = height(tile).first + j * s_.dilation[1] - s_.pad_lo[1];
        inside[i * kH + j] = z >= 0 && z < s_.input[0] && y >= 0 && y < s_.input[1];
        rows[i * kH + j] = (inside[i * kH + j] ? z * plane + y * s_.input[2] : 0) + start + begin;
      }
    const int64_t first = (at_.batch * s_.in_channels + group_ * group_in_) * map;
    float* to = points_ + tile * t_.pitch;
    for (int64_t c = 0; c < group_in_; ++c, to += t_.row) {
      fill_margins(to, begin, end);
      for (int i = 0; i < kD; ++i) {
        float* points = planes_ + i * kH * t_.row;
        if (s_.halves) {
          transform_halves(rows + i * kH, inside + i * kH, first + c * map, end - begin, points);
          continue;
        }
        // Six rows at a time, and those after next on their way: the processor foresees no 36 streams.
        const float* input = static_cast<const float*>(call_.input) + first;
        const int64_t ahead = i + 2 < kD ? c * map : (c + 1) * map;
        const int next = (i + 2) % kD * kH;
        transform_plane(input + c * map, rows + i * kH, inside + i * kH, input + ahead, rows + next, end - begin,
                        points);
      }
      transform_planes(end - begin, to + begin);
    }
  }

  // Rows of one plane that are stored as halves.
  void transform_halves(const int64_t* rows, const bool* inside, int64_t map, int64_t count, float* to) const {
    int64_t widened[kH];
    for (int j = 0; j < kH; ++j) {
      widened[j] = j * t_.row;
      if (inside[j])
        widen_halves(static_cast<const uint16_t*>(call_.input) + map + rows[j], widened_ + widened[j], count);
    }
    transform_plane(widened_, widened, inside, widened_, widened, count, to);
  }

  void fill_margins(float* to, int64_t begin, int64_t end) const {
    for (int p = 0; p < kPoints && (begin > 0 || end < span_); ++p) {
      float* row = to + p * group_in_ * t_.row;
      std::fill(row, row + begin, 0.0f);
      std::fill(row + end, row + span_, 0.0f);
    }
  }

  // Rows of one plane → points along H.
  void transform_plane(const float* map, const int64_t* rows, const bool* inside, const float* next_map,
                       const int64_t* next_rows, int64_t count, float* to) const {
    if (std::all_of(inside, inside + kH, [](bool is) { return is; }))
      transform_rows<true>(map, rows, inside, next_map, next_rows, count, to);
    else
      transform_rows<false>(map, rows, inside, next_map, next_rows, count, to);
  }

  template <bool kInside>
  void transform_rows(const float* map, const int64_t* rows, const bool* inside, const float* next_map,
                      const int64_t* next_rows, int64_t count, float* to) const {
    const Floats d;
    Vector x[kH];
    int64_t at = 0;
    const auto finish = [&] {
      to_points<MH>(x, 1);
      for (int j = 0; j < kH; ++j) hn::Store(x[j], d, to + j * t_.row + at);
    };
    for (; at + lanes() <= count; at += lanes()) {
      for (int j = 0; j < kH; ++j) hwy::Prefetch(next_map + next_rows[j] + at);
      for (int j = 0; j < kH; ++j) x[j] = kInside || inside[j] ? hn::LoadU(d, map + rows[j] + at) : hn::Zero(d);
      finish();
    }
    if (at == count) return;
    for (int j = 0; j < kH; ++j) x[j] = inside[j] ? load_some(map + rows[j] + at, count - at) : hn::Zero(d);
    finish();
  }

  // These → points along D as well.
  void transform_planes(int64_t count, float* to) const {
    const Floats d;
    Vector x[kD];
    const int64_t next = group_in_ * t_.row;
    for (int j = 0; j < kH; ++j) {
      const float* from = planes_ + j * t_.row;
      float* points = to + j * next;
      int64_t at = 0;
      for (; at + lanes() <= count; at += lanes()) {
        for (int i = 0; i < kD; ++i) x[i] = hn::Load(d, from + i * kH * t_.row + at);
        to_points<MD>(x, 1);
        for (int i = 0; i < kD; ++i) hn::StoreU(x[i], d, points + i * kH * next + at);
      }
      if (at == count) continue;
      for (int i = 0; i < kD; ++i) x[i] = hn::Load(d, from + i * kH * t_.row + at);
      to_points<MD>(x, 1);
      for (int i = 0; i < kD; ++i) store_some(x[i], points + i * kH * next + at, count - at);
    }
  }

  // A point at a time, so that its rows serve all blocks from the first cache.
  void sum_points(int64_t begin, int64_t end) {
    constexpr float kNone[kChannels] = {};
    const int64_t taps = group_in_ * s_.kernel[2];
    Sums sums;
    sums.taps = s_.kernel[2], sums.step = s_.dilation[2], sums.count = group_in_, sums.bias = kNone;
    taps_.resize(static_cast<size_t>(group_in_));
    sums.rows = taps_.data();
    for (int p = 0; p < kPoints; ++p) {
      for (int64_t c = 0; c < group_in_; ++c)
        taps_[static_cast<size_t>(c)] = {points_ + (p * group_in_ + c) * t_.row, c * s_.kernel[2]};
      float* to = products_ + p * product_point();
      for (int64_t b = begin; b < end; ++b) {
        const int64_t channels = block(b + 1) - block(b), first = group_ * group_out_ + block(b);
        sums.weights = p_.weights.data() + (first * kPoints + p * channels) * taps;
        sum_row(sums, channels, 0, vectors_, to + (block(b) - block(begin)) * t_.row, t_.row);
      }
    }
  }
  int64_t product_point() const { return t_.batch * kChannels * t_.row; }  // elements from point to point

  // The rows that will be written, while products are summed.
  void prefetch_output(int64_t b) const {
    constexpr int64_t kLine = 16;  // floats
    for (int64_t tile = 0; tile < tile_count_ && call_.output; ++tile)
      for (int64_t o = block(b); o < block(b + 1); ++o)
        for (int64_t i = 0; i < depth_.count; ++i)
          for (int64_t j = 0; j < height(tile).count; ++j) {
            const float* row = target(group_ * group_out_ + o, tile, i, j);
            for (int64_t at = 0; at < at_.columns; at += kLine) __builtin_prefetch(row + at, 1, 2);
          }
  }

  void transform_output(int64_t b, int64_t tile, const float* products) const {
    const bool is_whole = depth_.count == MD && height(tile).count == MH;
    for (int64_t o = block(b); o < block(b + 1); ++o) {
      const int64_t channel = group_ * group_out_ + o;
      const float* from = products + (o - block(b)) * t_.row + tile * t_.pitch;
      const float bias = call_.bias ? call_.bias[channel] : 0.0f;
      if (is_whole)
        transform_channel<true>(channel, tile, from, bias);
      else
        transform_channel<false>(channel, tile, from, bias);
    }
  }

  // `kWhole`: the tile has all its rows.
  template <bool kWhole>
  void transform_channel(int64_t channel, int64_t tile, const float* from, float bias) const {
    const Floats d;
    const Vector more = hn::Set(d, bias);
    Vector x[kPoints];
    float* to[MD * MH];
    for (int i = 0; i < MD; ++i)
      for (int j = 0; j < MH; ++j)
        to[i * MH + j] = kWhole || (i < depth_.count && j < height(tile).count) ? target(channel, tile, i, j) : nullptr;
    const auto sum = [&](int64_t at) {
      for (int p = 0; p < kPoints; ++p) x[p] = hn::LoadU(d, from + p * product_point() + at);
      for (int i = 0; i < kD; ++i) from_points<MH>(x + i * kH, 1);
      for (int j = 0; j < MH; ++j) from_points<MD>(x + j, kH);
    };
    int64_t at = 0;
    for (; at + lanes() <= at_.columns; at += lanes()) {
      sum(at);
      for (int i = 0; i < MD; ++i)
        for (int j = 0; j < MH; ++j)
          if (kWhole || to[i * MH + j]) hn::StoreU(hn::Add(x[i * kH + j], more), d, to[i * MH + j] + at);
    }
    if (at == at_.columns) return;
    sum(at);
    for (int i = 0; i < MD; ++i)
      for (int j = 0; j < MH; ++j)
        if (to[i * MH + j]) store_some(hn::Add(x[i * kH + j], more), to[i * MH + j] + at, at_.columns - at);
  }

  void finish() const {
    const int64_t begin = first_channel(), end = last_channel();
    for (int64_t tile = 0; tile < tile_count_; ++tile)
      for (int64_t i = 0; i < depth_.count; ++i)
        for (int64_t j = 0; j < height(tile).count; ++j)
          (*call_.epilogue)({item_, at_.batch, begin, end - begin, voxel(tile, i, j), at_.columns,
                             target(begin, tile, i, j), target_stride()});
  }

  const ConvParts& p_;
  const ConvShape& s_;
  const WinogradTiling& t_;
  const ConvCall& call_;
  int64_t item_;
  ConvItem at_;
  ConvTile depth_;
  int64_t first_tile_ = 0, tile_count_ = 0;
  int64_t group_in_ = 0, group_out_ = 0, group_ = 0;
  int64_t span_ = 0;     // columns of a row of the input
  int64_t vectors_ = 0;  // of all tiles
  // Transformed rows; sums of products of some blocks of channels; rows of one channel that are transformed along H;
  // rows of one plane that were halves.
  float *points_ = nullptr, *products_ = nullptr, *planes_ = nullptr, *widened_ = nullptr, *stage_ = nullptr;
  std::vector<RowTap> taps_;
};

void winograd_item(const ConvParts& parts, const ConvCall& call, int64_t item) {
  switch (parts.winograd.outputs[0] * 10 + parts.winograd.outputs[1]) {
    case 12: return WinogradItem<1, 2>(parts, call, item).run();
    case 14: return WinogradItem<1, 4>(parts, call, item).run();
    case 22: return WinogradItem<2, 2>(parts, call, item).run();
    case 24: return WinogradItem<2, 4>(parts, call, item).run();
    case 42: return WinogradItem<4, 2>(parts, call, item).run();
    default: return WinogradItem<4, 4>(parts, call, item).run();
  }
}

using ItemFunction = void (*)(const ConvParts&, const ConvCall&, int64_t);
ItemFunction winograd_function() { return winograd_item; }

}  // namespace gyrus::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gyrus::cpu {

HWY_EXPORT(winograd_function);
void (*winograd_engine())(const ConvParts&, const ConvCall&, int64_t) {
  return HWY_DYNAMIC_DISPATCH(winograd_function)();
}

}  // namespace gyrus::cpu
#endif
