// The kernel conv_winograd: three taps along H with stride 1.
#include <algorithm>

#include "core/error.h"
#include "ops/arrange.h"
#include "plan/conv_cut.h"

namespace gyrus {
namespace {

constexpr int64_t kPoints = kWinogradPoints;  // products of a run
constexpr int64_t kOutputs = 4;               // voxels of a run

// Runs and output quads of one thread: as many sums as registers hold, with as few quads that hold no channel as may
// be.
struct Tile {
  int64_t runs = 2;
  int64_t quads = 2;
  int64_t voxels() const { return runs * kOutputs; }
};

Tile tile_for(int64_t out_quads) {
  if (out_quads == 1) return {2, 1};
  if (out_quads == 3) return {1, 3};
  return {2, 2};
}

bool suits(const ConvSite& site) {
  const ConvGeometry& g = site.geometry;
  if (!site.options.conv.winograd || site.in.lanes != 4) return false;
  if (g.kernel[1] != 3 || g.stride[1] != 1 || g.stride[2] != 1) return false;
  // One row of weights and one group's sums must fit the smallest workgroup memory.
  constexpr uint64_t kLeastShared = 4096;
  if (site.target.limits.max_compute_workgroup_storage_size < kLeastShared) return false;
  // Runs of voxels that the volume does not have would cost more than the products they save.
  const int64_t in_class = ceil_div(g.out[1], g.dilation[1]);
  const int64_t voxels = tile_for(g.out_quads()).voxels();
  return 3 * in_class >= 2 * ceil_div(in_class, voxels) * voxels;
}

CutOptions cut_options(const ConvSite& site) {
  const ConvGeometry& g = site.geometry;
  const Tile tile = tile_for(g.out_quads());
  CutOptions o;
  o.output_quads = g.out_quads();
  // Channels that groups of quads hold in vain are left out where a dispatch of its own for the last group pays: not
  // where windows make dispatches short, since each waits for the one before.
  const int64_t held = ceil_div(g.out_quads(), tile.quads) * tile.quads * 4;
  const uint64_t binding = site.target.limits.max_storage_buffer_binding_size;
  const bool whole = site.in.bytes() <= binding && site.out.bytes() <= binding;
  if (whole && held - g.out_channels >= 3) o.tail_unit = tile.quads;
  o.stats = site.stats && site.options.conv.gather_statistics;
  return o;
}

// Quads that a thread holds of a dispatch's.
int64_t held_of(const ConvSite& site, const Interval& first, const Interval& quads) {
  return std::min({tile_for(site.geometry.out_quads()).quads, first.size(), quads.size()});
}

int64_t row(int64_t quads) { return kPoints * 4 * quads; }  // vec4 of weights for one input quad and pair of taps
int64_t last_point(int64_t quads) { return 4 * quads; }     // of them of the last point

// Rows of weights of a dispatch.
int64_t weight_rows(const ConvGeometry& g, const Interval& quads, int64_t held) {
  return g.kernel[0] * g.kernel[2] * g.in_quads() * ceil_div(quads.size(), held);
}

// Workgroup memory is read at a rate that these kernels reach; a sixth of the weights as uniforms relieves it. With
// halves, or the short dispatch of a last group, it was measured to cost more than it saves.
bool uniform_pays(const ConvSite& site, const std::vector<Interval>& groups, int64_t held) {
  const auto bytes = static_cast<uint64_t>(weight_rows(site.geometry, groups[0], held) * last_point(held)) * kVec4Bytes;
  return site.constant && bytes <= site.target.limits.max_uniform_buffer_binding_size && site.in.dtype == DType::F32 &&
         groups.size() == 1;
}

WeightOrders orders(const ConvSite& site) {
  WeightOrders result;
  const std::vector<Interval> groups = output_groups(site, cut_options(site));
  const auto order = [&](const char* kernel, const Interval& quads) {
    return Attrs{{"kernel", std::string(kernel)},
                 {"begin", quads.begin},
                 {"end", quads.end},
                 {"lanes", site.geometry.in_quads() * 4},
                 {"held", held_of(site, groups[0], quads)}};
  };
  for (const Interval& quads : groups) result.storage.push_back(order("winograd", quads));
  if (uniform_pays(site, groups, held_of(site, groups[0], groups[0])))
    result.uniform = order("winograd_last", groups[0]);
  return result;
}

class WinogradConv {
 public:
  WinogradConv(Lowering& lowering, const PackedConv& conv)
      : lowering_(lowering),
        conv_(conv),
        site_(conv_site(lowering.target(), lowering.options(), conv)),
        tile_(tile_for(conv.geometry.out_quads())),
        cut_(lowering, conv, cut_options(site_)) {
    const int64_t quads = std::min(tile_.quads, cut_.out_groups()[0].size());
    const uint64_t row_bytes = static_cast<uint64_t>(row(quads)) * kVec4Bytes;
    wg_ = lowering.workgroup(lowering.options().conv.workgroup);
    while (wg_ > 32 && stats_bytes() + row_bytes > shared()) wg_ /= 2;
    stage_rows_ = std::max<int64_t>(1, static_cast<int64_t>((shared() - stats_bytes()) / row_bytes));
    stage_rows_ = std::min(stage_rows_, cut_.in_quads());
  }

  void run(StatsTarget* stats) {
    const auto groups_of = [this](const Interval& range) {
      return static_cast<uint64_t>(range.size()) * plane_groups();
    };
    uint64_t parts = 0;
    for (const Interval& range : cut_.ranges()) parts += groups_of(range);
    if (cut_.begin_stats(stats, parts)) stats_ = stats;
    cut_.each_dispatch(groups_of, [&](const ConvPart& part) { emit(part); });
  }

 private:
  uint64_t shared() const { return lowering_.limits().max_compute_workgroup_storage_size; }
  uint64_t stats_bytes() const { return conv_.stats && cut_.gathers_stats() ? wg_ * kStatisticsBytes : 0; }
  // Runs of voxels in the residue classes of the dilation, the last of a class perhaps short.
  int64_t runs() const {
    const int64_t dilation = conv_.geometry.dilation[1];
    return dilation * ceil_div(ceil_div(conv_.geometry.out[1], dilation), tile_.voxels());
  }
  // Lanes of a workgroup along W; the others lie along H, where neighbouring runs share rows. 0: all in one line.
  int64_t block() const {
    constexpr int64_t kLanes = 32;
    return kLanes < wg_ && conv_.geometry.out[2] % kLanes == 0 ? kLanes : 0;
  }
  uint64_t plane_groups() const {
    if (block()) return static_cast<uint64_t>(conv_.geometry.out[2] / block() * ceil_div(runs(), wg_ / block()));
    return static_cast<uint64_t>(ceil_div(runs() * conv_.geometry.out[2], static_cast<int64_t>(wg_)));
  }
  // Runs fill H and its classes without remainder, so that most rows need no check. (With one run to a thread the
  // branch around them costs more.)
  bool exact() const {
    const ConvGeometry& g = conv_.geometry;
    return tile_.runs > 1 && g.out[1] % (g.dilation[1] * tile_.voxels()) == 0 && g.in[1] == g.out[1] &&
           g.pad[1] == g.dilation[1];
  }

  // v0_0 …: the six rows of each run as f32; neighbouring runs share two rows.
  std::string unpack_rows() const {
    std::string text;
    for (int64_t r = 0; r < tile_.voxels() + 2; ++r) {
      const std::string raw = r == 0 ? "first" : r <= tile_.voxels() ? cat("inner", r - 1) : "last";
      text += cat("          let row", r, " = ", unpack_unit(*conv_.in, raw), ";\n");
    }
    for (int64_t t = 0; t < tile_.runs; ++t)
      for (int64_t i = 0; i < kPoints; ++i)
        text += cat("          let v", t, "_", i, " = row", t * kOutputs + i, ";\n");
    return text;
  }

  void emit(const ConvPart& part);
  void add_geometry(const ConvPass& pass, Kernel& k) const;
  void add_stage(const ConvPass& pass, int64_t held, Kernel& k) const;
  void add_tail(const ConvPass& pass, Kernel& k) const;

  Lowering& lowering_;
  const PackedConv& conv_;
  ConvSite site_;
  Tile tile_;
  ConvCut cut_;
  int64_t stage_rows_ = 1;
  uint32_t wg_ = 64;
  StatsTarget* stats_ = nullptr;
};

// Extents and taps as literals: docs/performance.md says what that gains.
void WinogradConv::add_geometry(const ConvPass& pass, Kernel& k) const {
  const ConvGeometry& g = conv_.geometry;
  k.constant("planes_in", g.in[0]).constant("h_in", g.in[1]).constant("w_in", g.in[2]);
  k.constant("h_out", g.out[1]).constant("w_out", g.out[2]).constant("in_stride", cut_.in_stride());
  k.constant("stride_d", g.stride[0]).constant("pad_h", g.pad[1]).constant("pad_w", g.pad[2]);
  k.constant("dilation_d", g.dilation[0]).constant("dilation_h", g.dilation[1]).constant("dilation_w", g.dilation[2]);
  k.constant("taps_w", g.kernel[2]).constant("tap_begin", pass.taps.begin).constant("tap_end", pass.taps.end);
  k.constant("quads", pass.quads.size()).flag("taps_apart", pass.taps_apart());
  k.constant("block", block()).constant("blocks", block() ? g.out[2] / block() : 0);
}

// How much of the weights is staged at a time: all taps along W save barriers; with many quads they leave too little of
// the cache that lies beside.
void WinogradConv::add_stage(const ConvPass& pass, int64_t held, Kernel& k) const {
  const int64_t staged = row(held) - (conv_.last_point ? last_point(held) : 0);
  const int64_t all_rows = conv_.geometry.kernel[2] * pass.quads.size();
  const uint64_t bytes = static_cast<uint64_t>(staged) * kVec4Bytes;
  const bool stage_all = pass.quads.size() <= 5 && stats_bytes() + static_cast<uint64_t>(all_rows) * bytes <= shared();
  k.constant("staged", staged).flag("stage_all", stage_all).constant("stage_rows", stage_rows_);
  k.flag("one_stage", stage_all || pass.quads.size() <= stage_rows_);
  k.shared("stage", "Row", bytes, static_cast<uint64_t>(stage_all ? all_rows : stage_rows_));
}

// A last quad of the input that is not full has its products apart, so that those of the others stay one block. For a
// lane among many that costs more than it saves.
void WinogradConv::add_tail(const ConvPass& pass, Kernel& k) const {
  const ConvGeometry& g = conv_.geometry;
  const int64_t in_vain = 4 * g.in_quads() - g.in_channels;
  const bool full = pass.quads.end < cut_.in_quads() || (in_vain < 2 && 3 * in_vain < g.in_quads());
  k.constant("tail", full ? 0 : cut_.input_tail()).constant("full_quads", pass.quads.size() - (full ? 0 : 1));
}

void WinogradConv::emit(const ConvPart& part) {
  const ConvGeometry& g = conv_.geometry;
  const ConvPass& pass = part.pass;
  const bool with_stats = stats_ && pass.last;
  const int64_t held = held_of(site_, cut_.out_groups()[0], part.quads);
  const int64_t out_groups = ceil_div(part.quads.size(), held);
  const int64_t rows = weight_rows(g, part.quads, held);
  Kernel k(lowering_, "conv_winograd", conv_.label);
  k.name(
      cat("conv_winograd ", pass.quads.size() * 4, "→", part.quads.size() * 4, pass.first && pass.last ? "" : " part"));
  k.workgroup(wg_).constant("inputs", cut_.bind_inputs(part, k));
  cut_.bind_weights(part, k);
  const std::string functions = cut_.bind_output(part, k);
  if (with_stats) cut_.bind_stats(*stats_, part, k);
  if (conv_.last_point) k.uniform("last_point", *conv_.last_point, cat("array<LastPoint, ", rows, ">"));
  k.param("plane_groups", plane_groups()).param("runs", runs()).param("out_quads", part.quads.size());
  k.param("origin_d", part.range.begin * g.stride[0] - g.pad[0]);
  k.param("first_quad", pass.quads.begin).param("all_quads", g.in_quads()).param("bias", rows * row(held));
  add_geometry(pass, k);
  add_stage(pass, held, k);
  add_tail(pass, k);
  // Groups of one dispatch share their text, so only a single one may end in a quad that is not full.
  k.text("functions", functions + cut_.sum_types(out_groups == 1 ? part.quads : Interval{0, held}));
  k.flag("uniform", conv_.last_point.has_value()).constant("last_lanes", last_point(held));
  k.text("raw", to_string(array_type(*conv_.in))).text("unpack", unpack_rows()).text("T", "vec4<f32>");
  k.constant("tiles", tile_.runs).constant("voxels", tile_.voxels()).flag("exact", exact());
  k.constant("o", held).constant("row", row(held)).constant("out_groups", out_groups);
  k.flag("first", pass.first).flag("last", pass.last).flag("stats", with_stats).text("epilogue", conv_.epilogue);
  k.dispatch(static_cast<uint64_t>(part.range.size()) * plane_groups() * static_cast<uint64_t>(out_groups),
             cut_.cost(part));
}

}  // namespace

const ConvKernel kWinogradConv = {
    "winograd", suits, orders,
    [](Lowering& lowering, const PackedConv& conv, StatsTarget* stats) { WinogradConv(lowering, conv).run(stats); }};

}  // namespace gyrus
