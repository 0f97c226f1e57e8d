// Convolution as it is written. An item copies the rows that its outputs need into scratch memory, with zeros where the
// volume ends and apart by their remainders by the strides, so that every tap is a contiguous run of lanes; then blocks
// of sums in registers go over all taps. Layout of the scratch memory: [channel][plane][phase along H][phase along W]
// [slot][pitch].
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/conv_direct.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "core/tensor.h"
#include "cpu/conv_sums-inl.h"
#include "cpu/strip_ops.h"

HWY_BEFORE_NAMESPACE();
namespace gyrus::cpu::HWY_NAMESPACE {

inline void copy_line(const float* from, float* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}
inline void copy_line(const uint16_t* from, float* to, int64_t count) { widen_halves(from, to, count); }
inline float single(float value) { return value; }
inline float single(uint16_t half) { return half_to_float(half); }

// Column x of the copy is column (x · stride + phase − pad) of the row; zeros outside.
template <class T>
void copy_row(const T* from, int64_t width, int64_t first, int64_t stride, float* to, int64_t count) {
  const int64_t begin = std::clamp<int64_t>(first >= 0 ? 0 : (-first + stride - 1) / stride, 0, count);
  const int64_t end = std::clamp<int64_t>(width > first ? (width - first + stride - 1) / stride : 0, begin, count);
  std::fill(to, to + begin, 0.0f);
  if (stride == 1) {
    copy_line(from + first + begin, to + begin, end - begin);
  } else {
    for (int64_t x = begin; x < end; ++x) to[x] = single(from[first + x * stride]);
  }
  std::fill(to + end, to + count, 0.0f);
}

class DirectItem {
 public:
  DirectItem(const ConvParts& parts, const ConvCall& call, int64_t item)
      : p_(parts), s_(parts.shape), t_(parts.direct), call_(call), item_(item) {
    at_ = locate(parts, item, t_.output[0], static_cast<int64_t>(t_.tiles.size()), t_.columns, t_.output[2]);
    tile_ = t_.tiles[static_cast<size_t>(at_.rows)];
    group_in_ = s_.in_channels / s_.groups, group_out_ = s_.out_channels / s_.groups;
    span_ = at_.columns + t_.pitch - t_.columns;
    row_ = t_.is_flat ? t_.pitch : round_up(at_.columns, lanes());
    vectors_ = (t_.is_flat ? (tile_.count - 1) * t_.pitch + at_.columns : at_.columns) + lanes() - 1;
    vectors_ /= lanes();
    is_staged_ = t_.is_flat || !call.output || at_.columns % lanes() != 0;
    copy_ = thread_scratch(p_.scratch);
    copy_channel_ = s_.kernel[0] * t_.row_phases * t_.phases * t_.slots * t_.pitch;
    stage_ = copy_ + (t_.in_place && !needs_copy() ? 0 : round_up(t_.channel_block * copy_channel_ + 64, 16));
    stage_channel_ = t_.is_flat ? vectors_ * lanes() : tile_.count * row_;
  }

  void run() {
    for (int64_t group = at_.group_begin; group < at_.group_end; ++group) {
      group_ = group;
      for (int64_t c = 0; c < group_in_; c += t_.channel_block)
        sum_channels(c, std::min(group_in_, c + t_.channel_block));
    }
    finish();
  }

 private:
  int64_t first_block() const { return p_.parts[static_cast<size_t>(at_.part)]; }
  int64_t last_block() const { return p_.parts[static_cast<size_t>(at_.part) + 1]; }
  int64_t first_channel() const { return at_.group_begin * group_out_ + p_.blocks[static_cast<size_t>(first_block())]; }
  int64_t last_channel() const {
    return (at_.group_end - 1) * group_out_ + p_.blocks[static_cast<size_t>(last_block())];
  }
  // The last vector of a row that is read where it lies would go beyond the map.
  bool needs_copy() const { return at_.columns % lanes() != 0; }

  // First voxel of row t of the tile in the map of the output.
  int64_t voxel(int64_t t) const {
    return (at_.plane * t_.output[1] + tile_.first + t * t_.step) * t_.output[2] + at_.column;
  }
  float* stage(int64_t channel, int64_t t) const {
    return stage_ + (channel - first_channel()) * stage_channel_ + t * row_;
  }
  int64_t output_voxels() const { return t_.output[0] * t_.output[1] * t_.output[2]; }
  float* target(int64_t channel, int64_t t) const {
    return is_staged_ ? stage(channel, t)
                      : call_.output + (at_.batch * s_.out_channels + channel) * output_voxels() + voxel(t);
  }
  int64_t target_stride() const { return is_staged_ ? stage_channel_ : output_voxels(); }

  template <class T>
  const T* input(int64_t channel) const {
    return static_cast<const T*>(call_.input) +
           (at_.batch * s_.in_channels + group_ * group_in_ + channel) * t_.input[0] * t_.input[1] * t_.input[2];
  }
  int64_t plane_of(int64_t i) const { return at_.plane * s_.stride[0] + i * s_.dilation[0] - s_.pad_lo[0]; }

  // Rows of one channel and one plane of taps.
  template <class T>
  void copy_plane(const T* plane, float* to) const {
    for (int64_t fh = 0; fh < t_.row_phases; ++fh)
      for (int64_t fw = 0; fw < t_.phases; ++fw)
        for (int64_t slot = 0; slot < used_slots(); ++slot) {
          float* row = to + ((fh * t_.phases + fw) * t_.slots + slot) * t_.pitch;
          const int64_t y = tile_.first * s_.stride[1] - s_.pad_lo[1] +
                            (s_.stride[1] == 1 ? slot * t_.step : slot * t_.row_phases + fh);
          if (y < 0 || y >= t_.input[1]) {
            std::fill(row, row + span_, 0.0f);
            continue;
          }
          copy_row(plane + y * t_.input[2], t_.input[2], at_.column * s_.stride[2] + fw - s_.pad_lo[2], s_.stride[2],
                   row, span_);
        }
  }
  int64_t used_slots() const { return t_.slots - t_.rows + tile_.count; }

  // Copies channels begin to end where they must be, and lists their rows.
  void gather(int64_t begin, int64_t end) {
    const bool copies = !t_.in_place || needs_copy();
    taps_.clear();
    for (int64_t c = begin; c < end; ++c)
      for (int64_t i = 0; i < s_.kernel[0]; ++i) {
        const int64_t z = plane_of(i);
        if (z < 0 || z >= t_.input[0]) continue;
        const int64_t plane = z * t_.input[1] * t_.input[2];
        const int64_t tap = (c * s_.kernel[0] + i) * s_.kernel[1] * s_.kernel[2];
        if (!copies) {
          taps_.push_back({input<float>(c) + plane + at_.column, tap});
          continue;
        }
        float* to = copy_ + (c - begin) * copy_channel_ + i * copy_channel_ / s_.kernel[0];
        if (s_.halves)
          copy_plane(input<uint16_t>(c) + plane, to);
        else
          copy_plane(input<float>(c) + plane, to);
        list_plane(to, tap);
      }
  }

  void list_plane(const float* copy, int64_t tap) {
    for (int64_t j = 0; j < s_.kernel[1]; ++j) {
      const int64_t reach = s_.stride[1] == 1 ? 0 : j * s_.dilation[1];
      const int64_t slot = s_.stride[1] == 1 ? j : reach / s_.stride[1];
      for (int64_t k = 0; k < (t_.phases == 1 ? 1 : s_.kernel[2]); ++k, ++tap) {
        const int64_t shift = k * s_.dilation[2];
        const int64_t phase = reach % t_.row_phases * t_.phases + shift % t_.phases;
        taps_.push_back({copy + (phase * t_.slots + slot) * t_.pitch + shift / t_.phases, tap});
      }
      if (t_.phases == 1) tap += s_.kernel[2] - 1;
    }
  }

  void sum_channels(int64_t begin, int64_t end) {
    gather(begin, end);
    const int64_t taps = group_in_ * s_.kernel[0] * s_.kernel[1] * s_.kernel[2];
    Sums sums;
    sums.rows = taps_.data(), sums.count = static_cast<int64_t>(taps_.size());
    sums.taps = t_.phases == 1 ? s_.kernel[2] : 1, sums.step = s_.dilation[2];
    sums.adds = begin > 0;
    constexpr float kNone[kChannels] = {};
    for (int64_t b = first_block(); b < last_block(); ++b) {
      const int64_t first = p_.blocks[static_cast<size_t>(b)];
      const int64_t channels = p_.blocks[static_cast<size_t>(b) + 1] - first;
      const int64_t channel = group_ * group_out_ + first;
      sums.weights = p_.weights.data() + channel * taps;
      sums.bias = call_.bias ? call_.bias + channel : kNone;
      for (int64_t t = 0; t < (t_.is_flat ? 1 : tile_.count); ++t)
        sum_row(sums, channels, t * t_.pitch, vectors_, target(channel, t), target_stride());
    }
  }

  void finish() const {
    const int64_t begin = first_channel(), end = last_channel();
    for (int64_t t = 0; t < tile_.count; ++t) {
      if (*call_.epilogue)
        (*call_.epilogue)(
            {item_, at_.batch, begin, end - begin, voxel(t), at_.columns, target(begin, t), target_stride()});
      for (int64_t o = begin; call_.output && is_staged_ && o < end; ++o)
        std::memcpy(call_.output + (at_.batch * s_.out_channels + o) * output_voxels() + voxel(t), stage(o, t),
                    static_cast<size_t>(at_.columns) * sizeof(float));
    }
  }

  const ConvParts& p_;
  const ConvShape& s_;
  const DirectTiling& t_;
  const ConvCall& call_;
  int64_t item_;
  ConvItem at_;
  ConvTile tile_;
  int64_t group_in_ = 0, group_out_ = 0, group_ = 0;
  int64_t span_ = 0;     // columns of a copied row
  int64_t row_ = 0;      // elements from row to row of the stage
  int64_t vectors_ = 0;  // of a row, or of all rows one behind another
  bool is_staged_ = false;
  float *copy_ = nullptr, *stage_ = nullptr;
  int64_t copy_channel_ = 0, stage_channel_ = 0;
  std::vector<RowTap> taps_;
};

void direct_item(const ConvParts& parts, const ConvCall& call, int64_t item) { DirectItem(parts, call, item).run(); }

ConvTarget describe() { return {lanes(), kChannels, kVectors, direct_item, nullptr}; }

}  // namespace gyrus::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gyrus::cpu {

HWY_EXPORT(describe);
ConvTarget conv_target() {
  ConvTarget target = HWY_DYNAMIC_DISPATCH(describe)();
  target.winograd = winograd_engine();
  return target;
}

}  // namespace gyrus::cpu
#endif
