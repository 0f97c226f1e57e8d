#pragma once
#include <array>
#include <string>
#include <vector>

#include "plan/lowering.h"

namespace gyrus {

inline constexpr uint64_t kVec4Bytes = 16;

// A convolution brought to three axes: planes are cut along the first, the slowest. One and two spatial axes become
// [L,1,1] and [H,1,W], so that windows always cut the slowest axis there is.
struct ConvGeometry {
  int64_t images = 1;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;
  std::array<int64_t, 3> in{}, out{}, kernel{}, stride{}, dilation{}, pad{};
  int64_t plane_taps() const { return kernel[1] * kernel[2]; }
  int64_t in_quads() const { return ceil_div(in_channels, 4); }
  int64_t out_quads() const { return ceil_div(out_channels, 4); }
};
ConvGeometry conv_geometry(const Graph& graph, const Node& node, const Shape& out_shape);

// Where the statistics of one image are gathered: rows of three vec4 (mean, squared deviations, count) for each quad of
// channels and part.
struct StatsTarget {
  uint32_t buffer = 0;
  uint64_t parts = 0;  // of each quad; 0: not gathered
  uint64_t bytes = 0;
};

// One packed convolution over some output planes into `out`, whose first plane is `plane_origin`.
struct PackedConv {
  ConvGeometry geometry;
  StoragePtr in;
  StoragePtr out;
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;  // or null
  int64_t image = 0;
  int64_t out_image = 0;
  int64_t plane_begin = 0, plane_end = 0;
  int64_t plane_origin = 0;
  bool stats = false;
  std::string epilogue;  // body of fn epilogue
  bool keeps_zero = true;
  std::string label;
};
// All planes of the first image of a conv or conv_argmax node; `out` and the epilogue are still empty.
PackedConv packed_conv(Lowering& lowering, const Node& node, const Shape& out_shape);

// Emits the dispatches. With `stats`: fills it where the convolution could gather them, else leaves its parts 0.
void emit_packed_conv(Lowering& lowering, const PackedConv& conv, StatsTarget* stats);

// A convolution over plain tensors: channels in groups, or weights computed at run time.
void lower_plain_conv(Lowering& lowering, const Node& node);

// Merges the parts of one image into its rows of the statistics [N,C,2].
void emit_norm_finalize(Lowering& lowering, const StatsTarget& target, int64_t image, int64_t channels,
                        const Storage& out, const std::string& label);
// Gathers the parts of one image, some slabs of a packed tensor in memory.
StatsTarget emit_norm_partials(Lowering& lowering, const Storage& x, const PlaneRange& slabs, int64_t channels,
                               const std::string& label);

}  // namespace gyrus
