// The kernel conv_tiled: many channels, as a tiled product of matrices over the voxels of all images.
#include <algorithm>

#include "core/error.h"
#include "plan/lower_conv.h"

namespace gyrus {
namespace {

// Lanes across output channels and down voxels, voxels and quads of channels of a lane, quads of k in workgroup memory.
struct Tile {
  uint32_t across, down, rows, quads, steps;
  int64_t voxels() const { return int64_t{down} * rows; }
  int64_t channels() const { return int64_t{across} * quads * 4; }
  uint32_t lanes() const { return across * down; }
  uint64_t row_bytes() const { return (uint64_t{rows} * steps + 1) * kVec4Bytes; }
  uint64_t column_bytes() const { return uint64_t{across} * quads * kVec4Bytes; }
  uint64_t depth() const { return uint64_t{4} * steps; }  // steps of k
  uint64_t bytes() const { return down * row_bytes() + depth() * column_bytes(); }
};

// In order of preference, as far as there are enough of them to fill a device.
constexpr Tile kTiles[] = {{16, 16, 8, 2, 4}, {16, 16, 8, 1, 4}, {8, 16, 8, 1, 4}, {16, 16, 4, 1, 4}, {8, 16, 4, 1, 4}};
// Measured on one card (docs/performance.md): workgroups that fill it, and channels from which on the tiles pay.
constexpr int64_t kEnough = 256, kLeastIn = 16, kLeastOut = 32;

int64_t groups_of(const ConvGeometry& g, const Tile& tile) {
  return ceil_div(g.images * g.out[0] * g.out[1] * g.out[2], tile.voxels()) * ceil_div(g.out_channels, tile.channels());
}

const Tile* tile_for(const ConvGeometry& g, const Limits& limits) {
  const Tile* found = nullptr;
  for (const Tile& tile : kTiles) {
    // Of wide tiles at most a third may be computed in vain.
    const bool narrow = tile.channels() == kLeastOut ||
                        ceil_div(g.out_channels, tile.channels()) * tile.channels() * 2 <= g.out_channels * 3;
    if (!narrow || workgroup_size(limits, tile.lanes()) != tile.lanes() ||
        tile.bytes() > limits.max_compute_workgroup_storage_size)
      continue;
    found = &tile;
    if (groups_of(g, tile) >= kEnough) break;
  }
  return found;
}

// All rows of weights and of the bias.
uint64_t weight_bytes(const ConvGeometry& g) {
  return static_cast<uint64_t>((g.kernel[0] * g.plane_taps() * g.in_quads() * 4 + 1) * g.out_quads()) * kVec4Bytes;
}

bool suits(const ConvSite& site) {
  const ConvGeometry& g = site.geometry;
  const Limits& limits = site.target.limits;
  // Kernels on a CPU pay for barriers and not for reads.
  if (!site.options.conv.stage_weights || site.in.lanes != 4) return false;
  if (g.in_channels < kLeastIn || g.out_channels < kLeastOut) return false;
  if (limits.max_storage_buffers_per_shader_stage < (site.options.check_finite ? 4 : 3)) return false;
  const auto whole = [&](const Storage& storage) { return fits_window(storage, 0, storage.units, limits); };
  const uint64_t most = std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  return whole(site.in) && whole(site.out) && weight_bytes(g) <= most && tile_for(g, limits);
}

WeightOrders orders(const ConvSite& site) {
  const ConvGeometry& g = site.geometry;
  WeightOrders result;
  result.storage.push_back(
      {{"kernel", std::string("direct")}, {"begin", int64_t{0}}, {"end", g.out_quads()}, {"lanes", g.in_quads() * 4}});
  return result;
}

void emit(Lowering& lowering, const PackedConv& conv, StatsTarget*) {
  const ConvGeometry& g = conv.geometry;
  const Tile& tile = *tile_for(g, lowering.limits());
  const int64_t plane_in = g.in[1] * g.in[2], plane_out = g.out[1] * g.out[2];
  const int64_t voxels = g.images * g.out[0] * plane_out, chunks = ceil_div(g.in_quads(), tile.steps);
  const int64_t taps = g.kernel[0] * g.plane_taps();
  Kernel k(lowering, "conv_tiled", conv.label);
  k.name(cat("conv_tiled ", tile.voxels(), "×", tile.channels())).workgroup(tile.lanes());
  k.read("input", *conv.in).read("weights", *conv.weights[0]).write("output", *conv.out).checks_stored();
  k.param("voxels", voxels).param("n_tiles", ceil_div(g.out_channels, tile.channels()));
  k.param("planes_in", g.in[0]).param("h_in", g.in[1]).param("w_in", g.in[2]).param("plane_in", plane_in);
  k.param("planes_out", g.out[0]).param("w_out", g.out[2]).param("plane_out", plane_out);
  k.param("in_quads", g.in_quads()).param("out_quads", g.out_quads());
  k.param("stride_d", g.stride[0]).param("stride_h", g.stride[1]).param("stride_w", g.stride[2]);
  k.param("pad_d", g.pad[0]).param("pad_h", g.pad[1]).param("pad_w", g.pad[2]);
  k.param("dilation_d", g.dilation[0]).param("dilation_h", g.dilation[1]).param("dilation_w", g.dilation[2]);
  k.param("taps_hw", g.plane_taps()).param("taps_w", g.kernel[2]);
  k.param("chunks", chunks).param("tiles", taps * chunks).param("bias", taps * g.in_quads() * 4 * g.out_quads());
  k.shared("a_tile", "Rows", tile.row_bytes(), tile.down)
      .shared("b_tile", "Columns", tile.column_bytes(), tile.depth());
  k.constant("across", tile.across).constant("down", tile.down).constant("rows", tile.rows);
  k.constant("quads", tile.quads).constant("steps", tile.steps);
  k.constant("tile_m", tile.voxels()).constant("tile_n", tile.channels());
  // Quads of k that one round of all lanes fetches, and rounds.
  const int64_t a_deep = tile.lanes() / tile.voxels(), b_deep = int64_t{4} * tile.lanes() / tile.channels();
  k.constant("a_deep", a_deep).constant("a_loads", tile.steps / a_deep);
  k.constant("b_deep", b_deep).constant("b_loads", int64_t{4} * tile.steps / b_deep);
  const bool masked = g.out_channels % 4 != 0 && !conv.keeps_zero;
  k.flag("masked", masked).text("mask", masked ? lane_mask(g.out_channels) : "").text("T", "vec4<f32>");
  k.text("epilogue", conv.epilogue).text("unpack", unpack_unit(*conv.in, "raw"));
  k.text("store", k.stored(*conv.out, "y"));
  k.dispatch(static_cast<uint64_t>(groups_of(g, tile)),
             {2.0 * static_cast<double>(voxels * taps) * static_cast<double>(g.in_channels * g.out_channels),
              static_cast<double>(conv.in->bytes() + conv.out->bytes())});
}

}  // namespace

const ConvKernel kTiledConv = {"tiled", suits, orders, emit, true};

}  // namespace gyrus
