#include <algorithm>

#include "ops/conv.h"
#include "ops/conv_backward.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

constexpr uint32_t kLanes = 128;
constexpr uint64_t kMostLanes = 1 << 18;         // in all: enough for a large device
constexpr uint64_t kMostSumBytes = 64ull << 20;  // of the sums of all parts
// Of conv_weights_tiled: its lanes, the quads of a tile each way and its units a voxel, voxels of a tile, and
// workgroups that fill a large device.
constexpr uint32_t kTiledLanes = 32;
constexpr int64_t kTileQuads = 8, kTileUnits = 9, kTileVoxels = 16, kTiledGroups = 2048;
constexpr int64_t kMostTiledTaps = 3;  // in a row: 24 vec4 of sums in registers

// The last three axes of a map; missing ones stand for 1. The slowest axis is the one that planes are cut from.
struct Axes {
  int64_t d = 1, h = 1, w = 1;
};

Axes axes_of(const std::vector<int64_t>& spatial, int64_t fallback) {
  Axes axes{fallback, fallback, fallback};
  axes.d = spatial[0];
  if (spatial.size() > 1) axes.w = spatial.back();
  if (spatial.size() > 2) axes.h = spatial[1];
  return axes;
}

class ConvWeights {
 public:
  ConvWeights(Lowering& lowering, const Node& node)
      : lowering_(lowering),
        label_(label_of(node)),
        x_(by_planes(*lowering.storage(node.inputs[0]))),
        g_(by_planes(*lowering.storage(node.inputs[1]))),
        out_(*lowering.make_storage(node.outputs[0], node)) {
    const Shape& x = lowering.graph().type(node.inputs[0]).shape;
    const Shape& g = lowering.graph().type(node.inputs[1]).shape;
    const auto spatial = [](const Shape& shape) { return std::vector<int64_t>(shape.begin() + 2, shape.end()); };
    const ConvAttrs attrs = conv_attrs(node, x.size() - 2);
    in_ = axes_of(spatial(x), 1);
    of_ = axes_of(spatial(g), 1);
    kernel_ = axes_of(node.attrs.integers("kernel"), 1);
    stride_ = axes_of(attrs.stride, 1);
    dilation_ = axes_of(attrs.dilation, 1);
    pad_ = axes_of(attrs.pad_lo, 0);
    channels_ = x[1];
    results_ = g[1];
    images_ = x[0];
    in_quads_ = ceil_div(x[1], 4);
    out_quads_ = ceil_div(g[1], 4);
  }

  void run() {
    if (suits_tiles()) return run_tiled();
    const int64_t items = all_items();
    wg_ = lowering_.workgroup(kLanes);
    block_ = static_cast<uint32_t>(std::min<int64_t>(in_quads_ * out_quads_, wg_));
    slots_ = wg_ / block_;
    const uint64_t rows = static_cast<uint64_t>(images_ * of_.d * of_.h);
    const int64_t most_items = static_cast<int64_t>(std::max<uint64_t>(1, room() / item_bytes()));
    for (int64_t first = 0; first < items; first += most_items) {
      items_ = {first, std::min(items, first + most_items)};
      const auto count = static_cast<uint64_t>(items_.size());
      parts_ = static_cast<int64_t>(
          std::min({rows, std::max<uint64_t>(1, kMostLanes / count), room() / (item_bytes() * count)}));
      const uint64_t bytes = static_cast<uint64_t>(parts_) * count * item_bytes();
      sums_ = {lowering_.builder().add_buffer(label_ + ".sums", bytes), 0, bytes};
      sum();
      finish();
    }
  }

 private:
  static constexpr uint64_t kVec4Bytes = 16;

  uint64_t item_bytes() const { return static_cast<uint64_t>(kernel_.w) * 4 * kVec4Bytes; }
  uint64_t room() const { return std::min(lowering_.limits().max_storage_buffer_binding_size, kMostSumBytes); }
  int64_t all_items() const { return kernel_.d * kernel_.h * in_quads_ * out_quads_; }

  // Voxels of a row of x that the voxels of a tile reach.
  int64_t tile_reach() const { return (kTileVoxels - 1) * stride_.w + (kernel_.w - 1) * dilation_.w + 1; }

  bool suits_tiles() const {
    const Limits& limits = lowering_.limits();
    // Kernels on a CPU pay for barriers and not for reads.
    if (!lowering_.options().conv.stage_weights || x_.lanes != 4 || g_.lanes != 4) return false;
    if (kernel_.w < 2 || kernel_.w > kMostTiledTaps) return false;
    // At most a third of the tiles may be computed in vain.
    const int64_t tiles = ceil_div(in_quads_, kTileQuads) * ceil_div(out_quads_, kTileQuads);
    if (tiles * kTileQuads * kTileQuads * 2 > in_quads_ * out_quads_ * 3) return false;
    const uint64_t bytes = static_cast<uint64_t>((tile_reach() + kTileVoxels) * kTileUnits) * kVec4Bytes;
    return workgroup_size(limits, kTiledLanes) == kTiledLanes && bytes <= limits.max_compute_workgroup_storage_size &&
           fits_window(x_, 0, x_.units, limits) && fits_window(g_, 0, g_.units, limits) &&
           static_cast<uint64_t>(all_items()) * item_bytes() <= room();
  }

  void run_tiled() {
    const int64_t i_tiles = ceil_div(in_quads_, kTileQuads), o_tiles = ceil_div(out_quads_, kTileQuads);
    const int64_t tiles = i_tiles * o_tiles * kernel_.d * kernel_.h, rows = images_ * of_.d * of_.h;
    items_ = {0, all_items()};
    const auto part_bytes = static_cast<int64_t>(static_cast<uint64_t>(all_items()) * item_bytes());
    const int64_t most =
        std::min({rows, std::max<int64_t>(1, kTiledGroups / tiles), static_cast<int64_t>(room()) / part_bytes});
    parts_ = ceil_div(rows, ceil_div(rows, most));  // of about as many rows each
    sums_ = {lowering_.builder().add_buffer(label_ + ".sums", static_cast<uint64_t>(parts_ * part_bytes)), 0,
             static_cast<uint64_t>(parts_ * part_bytes)};
    Kernel k(lowering_, "conv_weights_tiled", label_);
    k.workgroup(kTiledLanes).read("g", g_).read("x", x_).write("sums", sums_, wgsl::vec4f);
    k.param("tiles", tiles).param("i_tiles", i_tiles).param("o_tiles", o_tiles).param("parts", parts_);
    k.param("in_quads", in_quads_).param("out_quads", out_quads_).param("rows", rows);
    k.param("g_slab_units", g_.slab_units).param("g_plane_units", g_.plane_units);
    k.param("x_slab_units", x_.slab_units).param("x_plane_units", x_.plane_units);
    k.param("in_d", in_.d).param("in_h", in_.h).param("in_w", in_.w);
    k.param("out_d", of_.d).param("out_h", of_.h).param("out_w", of_.w);
    k.param("kernel_y", kernel_.h).param("stride_z", stride_.d).param("stride_y", stride_.h);
    k.param("dilation_z", dilation_.d).param("dilation_y", dilation_.h);
    k.param("pad_z", pad_.d).param("pad_y", pad_.h).param("pad_x", pad_.w);
    k.constant("voxels", kTileVoxels).constant("reach", tile_reach()).constant("stride", stride_.w);
    k.constant("dilation", dilation_.w).constant("taps", kernel_.w).constant("before", kernel_.w - 1);
    k.constant("sums", kernel_.w * 4).flag("slides", stride_.w == 1 && dilation_.w == 1);
    k.text("unpack_g", unpacked_lanes(g_)).text("unpack_x", unpacked_lanes(x_));
    k.shared("g_tile", wgsl::vec4f, static_cast<uint64_t>(kTileVoxels * kTileUnits));
    k.shared("x_tile", wgsl::vec4f, static_cast<uint64_t>(tile_reach() * kTileUnits));
    k.dispatch(static_cast<uint64_t>(tiles * parts_),
               {32.0 * static_cast<double>(rows * of_.w * all_items() * kernel_.w),
                static_cast<double>(g_.bytes() + x_.bytes())});
    finish();
  }

  // The planes of x that some slabs of g read.
  Interval reach(const Interval& slabs) const {
    const int64_t begin = slabs.begin / of_.d * in_.d, last = (slabs.end - 1) / of_.d * in_.d;
    const bool one_image = begin == last;
    if (!one_image) return {begin, last + in_.d};
    const int64_t lo = slabs.begin % of_.d * stride_.d - pad_.d;
    const int64_t hi = (slabs.end - 1) % of_.d * stride_.d - pad_.d + (kernel_.d - 1) * dilation_.d;
    return {begin + std::clamp<int64_t>(lo, 0, in_.d), begin + std::clamp<int64_t>(hi + 1, 0, in_.d)};
  }

  void sum() {
    bool goes_on = false;
    for (const QuadPlanes& slopes : cut_packed(g_, {0, images_ * of_.d}, lowering_.limits(), label_)) {
      const Interval planes = reach(slopes.slabs);
      if (planes.empty()) continue;
      for (const QuadPlanes& maps : cut_packed(x_, planes, lowering_.limits(), label_)) {
        emit(slopes, maps, goes_on);
        goes_on = true;
      }
    }
    if (goes_on) return;
    // No tap meets a voxel: one dispatch that finds nothing leaves zeros.
    emit(cut_packed(g_, {0, 1}, lowering_.limits(), label_).front(),
         cut_packed(x_, {0, 1}, lowering_.limits(), label_).front(), false);
  }

  void emit(const QuadPlanes& slopes, const QuadPlanes& maps, bool goes_on) {
    const UnitRange g_units = packed_range(g_, slopes.slabs, slopes.quads);
    const UnitRange x_units = packed_range(x_, maps.slabs, maps.quads);
    const int64_t blocks = ceil_div(items_.size(), static_cast<int64_t>(block_));
    Kernel k(lowering_, "conv_weights", label_);
    k.workgroup(wg_);
    k.read("g", g_, window(g_, g_units.first, g_units.count, lowering_.limits()));
    k.read("x", x_, window(x_, x_units.first, x_units.count, lowering_.limits()));
    k.write("sums", sums_, wgsl::vec4f);
    k.param("blocks", blocks).param("parts", parts_).param("goes_on", int64_t{goes_on});
    k.param("first_item", items_.begin).param("end_item", items_.end);
    k.param("in_quads", in_quads_).param("out_quads", out_quads_);
    k.param("o_begin", slopes.quads.begin).param("o_end", slopes.quads.end);
    k.param("i_begin", maps.quads.begin).param("i_end", maps.quads.end);
    k.param("g_slab", slopes.slabs.begin).param("x_begin", maps.slabs.begin).param("x_end", maps.slabs.end);
    k.param("rows", slopes.slabs.size() * of_.h);
    k.param("g_slab_units", g_.slab_units).param("g_plane_units", g_.plane_units);
    k.param("x_slab_units", x_.slab_units).param("x_plane_units", x_.plane_units);
    k.param("in_d", in_.d).param("in_h", in_.h).param("in_w", in_.w);
    k.param("out_d", of_.d).param("out_h", of_.h).param("out_w", of_.w);
    k.param("kernel_y", kernel_.h).param("stride_z", stride_.d).param("stride_y", stride_.h);
    k.param("dilation_z", dilation_.d).param("dilation_y", dilation_.h).param("dilation_x", dilation_.w);
    k.param("pad_z", pad_.d).param("pad_y", pad_.h).param("pad_x", pad_.w);
    const bool slides = stride_.w == 1;
    if (!slides) k.param("stride_x", stride_.w);
    k.param("block", int64_t{block_}).param("slots", int64_t{slots_}).constant("taps", kernel_.w);
    k.constant("before", kernel_.w - 1).constant("sums", kernel_.w * 4).flag("slides", slides);
    k.text("unpack_g", unpacked_lanes(g_)).text("unpack_x", unpacked_lanes(x_));
    const double pairs = static_cast<double>(slopes.slabs.size() * of_.h * of_.w) * static_cast<double>(items_.size());
    k.dispatch(static_cast<uint64_t>(blocks * ceil_div(parts_, static_cast<int64_t>(slots_))),
               {32 * pairs * static_cast<double>(kernel_.w),
                static_cast<double>(g_units.count * g_.unit_bytes() + x_units.count * x_.unit_bytes())});
  }

  void finish() {
    for (const Window& w : windows(out_, 0, out_.units, lowering_.limits())) {
      Kernel k(lowering_, "conv_weights_finish", label_);
      k.workgroup(256).read("sums", sums_, wgsl::f32).write("output", out_, w);
      const uint32_t across = std::min<uint32_t>(32, k.workgroup());
      k.param("first", w.first).param("count", w.count).param("parts", parts_);
      k.param("channels", channels_).param("results", results_);
      k.param("first_item", items_.begin).param("end_item", items_.end);
      k.param("in_quads", in_quads_).param("out_quads", out_quads_).param("slow_taps", kernel_.d * kernel_.h);
      k.constant("taps", kernel_.w).constant("across", across).constant("deep", k.workgroup() / across);
      k.shared("stage", wgsl::f32, k.workgroup());
      const auto elements = static_cast<uint64_t>(items_.size() * kernel_.w * 16);
      k.dispatch((elements + across - 1) / across,
                 {static_cast<double>(elements) * static_cast<double>(parts_), static_cast<double>(sums_.size)});
    }
  }

  Lowering& lowering_;
  std::string label_;
  Storage x_, g_, out_;
  Axes in_, of_, kernel_, stride_, dilation_, pad_;
  int64_t channels_ = 0, images_ = 0, in_quads_ = 0, out_quads_ = 0, parts_ = 1, results_ = 0;
  Interval items_;
  uint32_t wg_ = 1, block_ = 1, slots_ = 1;
  BufferRange sums_;
};

}  // namespace

void lower_conv_weights(Lowering& lowering, const Node& node) { ConvWeights(lowering, node).run(); }

bool suits_conv_weights(const Graph& graph, const Node& node, const Target&, const PlanOptions&) {
  const auto suits = [&](ValueId id) {
    const TensorType& type = graph.type(id);
    return type.layout == Layout::Packed || (type.shape[1] == 1 && type.dtype == DType::F32);
  };
  return node.attrs.integer("groups", 1) == 1 && suits(node.inputs[0]) && suits(node.inputs[1]);
}

}  // namespace gyrus
