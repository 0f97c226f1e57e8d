// The kernel conv_packed: any kernel size, stride and dilation.
#include <algorithm>

#include "core/error.h"
#include "plan/conv_cut.h"

namespace gyrus {
namespace {

bool gathers(const ConvSite& site) { return site.stats && site.options.conv.gather_statistics; }

// A workgroup whose statistics leave at least a quarter of the workgroup's memory to weights.
uint32_t workgroup_for(const ConvSite& site) {
  uint32_t wg = workgroup_size(site.target.limits, site.options.conv.workgroup);
  while (gathers(site) && wg > 1 &&
         uint64_t{4} * wg * kStatisticsBytes > uint64_t{3} * site.target.limits.max_compute_workgroup_storage_size)
    wg /= 2;
  return wg;
}

// Workgroup memory for weights, in bytes.
uint64_t stage_bytes(const ConvSite& site) {
  const uint64_t statistics = gathers(site) ? 3 * kVec4Bytes + workgroup_for(site) * kStatisticsBytes : 0;
  const uint64_t all = site.target.limits.max_compute_workgroup_storage_size;
  return all > statistics ? all - statistics : 0;
}

CutOptions cut_options(const ConvSite& site) {
  const ConvTuning& tuning = site.options.conv;
  CutOptions o;
  const int64_t quads = site.geometry.out_quads();
  // A single input channel leaves registers for more sums, and each of its reads then serves more products.
  const bool wide = tuning.quads == 4;
  const int64_t most = wide && site.in.lanes == 1 ? 8 : wide && quads == 5 ? 5 : tuning.quads;
  o.output_quads = ceil_div(quads, ceil_div(quads, most));
  o.stats = gathers(site);
  // The weights of one tap must fit the workgroup's memory.
  if (tuning.stage_weights) {
    const auto row = static_cast<uint64_t>(o.output_quads * site.in.lanes) * kVec4Bytes;
    o.input_quads = std::max<int64_t>(1, static_cast<int64_t>(stage_bytes(site) / row));
  }
  return o;
}

int64_t input_lanes(const ConvSite& site) { return site.in.lanes == 4 ? site.geometry.in_quads() * 4 : 1; }

WeightOrders orders(const ConvSite& site) {
  WeightOrders result;
  for (const Interval& quads : output_groups(site, cut_options(site)))
    result.storage.push_back(
        {{"kernel", std::string("direct")}, {"begin", quads.begin}, {"end", quads.end}, {"lanes", input_lanes(site)}});
  return result;
}

class DirectConv {
 public:
  DirectConv(Lowering& lowering, const PackedConv& conv)
      : lowering_(lowering),
        site_(conv_site(lowering.target(), lowering.options(), conv)),
        tuning_(lowering.options().conv),
        conv_(conv),
        cut_(lowering, conv, cut_options(site_)),
        wg_(workgroup_for(site_)) {
    const int64_t quads = cut_.out_groups()[0].size();
    const int64_t registers = std::max<int64_t>(tuning_.registers, quads > 4 ? quads * 4 : 0);
    while (voxels_ < 8 && int64_t{2} * voxels_ * quads <= registers) voxels_ *= 2;
    const auto all = static_cast<uint64_t>((conv_.plane_end - conv_.plane_begin) * cut_.plane_out());
    while (voxels_ > 1 && group_voxels() > all) voxels_ /= 2;
  }

  void run(StatsTarget* stats) {
    const auto groups_of = [this](const Interval& range) { return this->groups_of(range); };
    uint64_t parts = 0;
    for (const Interval& range : cut_.ranges()) parts += groups_of(range);
    if (cut_.begin_stats(stats, parts)) stats_ = stats;
    cut_.each_dispatch(groups_of, [&](const ConvPart& part) { emit(part); });
  }

 private:
  uint64_t group_voxels() const { return uint64_t{voxels_} * wg_; }
  uint64_t groups_of(const Interval& range) const {
    const auto voxels = static_cast<uint64_t>(range.size() * cut_.plane_out());
    return (voxels + group_voxels() - 1) / group_voxels();
  }

  // A voxel outside counts as zero; the index stays inside the array either way.
  std::string load_function(const ConvPass& pass, int64_t inputs) const {
    const std::string value = conv_.in->lanes == 4 ? "vec4<f32>" : "f32";
    std::string text = cat("fn load(kd: u32, d: i32, at: u32, ok: bool) -> ", value, " {\n");
    const auto read = [](int64_t b) { return cat("in", b, "[select(0u, at + P.in", b, "_at, ok)];\n"); };
    if (!pass.taps_apart()) {
      text += "  let raw = " + read(0);
    } else {
      text += cat("  var raw = ", to_string(array_type(*conv_.in)), "();\n");
      // A voxel lies in one window. (Mesa 26's llvmpipe mistranslates the same tests one after another, without else.)
      for (int64_t b = 0; b < inputs; ++b)
        text += cat(b == 0 ? "  if" : " else if", " (kd == P.in", b, "_tap && u32(d) - P.in", b, "_begin < P.in", b,
                    "_planes) {\n    raw = ", read(b), "  }");
      text += "\n";
    }
    return cat(text, "  return select(", value, "(0.0), ", unpack_unit(*conv_.in, "raw"), ", ok);\n}\n");
  }

  void emit(const ConvPart& part);
  void add_params(const ConvPart& part, Kernel& k) const;
  void add_geometry(Kernel& k) const;

  Lowering& lowering_;
  ConvSite site_;
  ConvTuning tuning_;
  const PackedConv& conv_;
  ConvCut cut_;
  uint32_t wg_ = 1;
  uint32_t voxels_ = 1;
  StatsTarget* stats_ = nullptr;
};

void DirectConv::add_params(const ConvPart& part, Kernel& k) const {
  const ConvGeometry& g = conv_.geometry;
  const ConvPass& pass = part.pass;
  const int64_t quads = part.quads.size();
  const int64_t full_row = input_lanes(site_) * quads;  // vec4 of weights for one tap
  k.param("voxels", part.range.size() * cut_.plane_out());
  k.param("origin_d", part.range.begin * g.stride[0] - g.pad[0]).param("pad_h", g.pad[1]).param("pad_w", g.pad[2]);
  k.param("dilation_d", g.dilation[0]).param("dilation_h", g.dilation[1]).param("dilation_w", g.dilation[2]);
  k.param("tap_begin", pass.taps.begin * g.plane_taps()).param("tap_end", pass.taps.end * g.plane_taps());
  k.param("taps_hw", g.plane_taps()).param("taps_w", g.kernel[2]);
  k.param("quads", pass.quads.size()).param("full_quads", pass.quads.size() - 1);
  k.param("first_weight", pass.quads.begin * conv_.in->lanes * quads).param("weight_stride", full_row);
  k.param("bias", g.kernel[0] * g.plane_taps() * full_row);
}

void DirectConv::add_geometry(Kernel& k) const {
  const ConvGeometry& g = conv_.geometry;
  k.constant("planes_in", g.in[0]).constant("h_in", g.in[1]).constant("w_in", g.in[2]);
  k.constant("plane_in", cut_.plane_in()).constant("in_stride", cut_.in_stride());
  k.constant("w_out", g.out[2]).constant("plane_out", cut_.plane_out());
  k.constant("stride_d", g.stride[0]).constant("stride_h", g.stride[1]).constant("stride_w", g.stride[2]);
}

void DirectConv::emit(const ConvPart& part) {
  const ConvPass& pass = part.pass;
  const int64_t o = part.quads.size();
  const int64_t lanes = conv_.in->lanes;
  const bool with_stats = stats_ && pass.last;
  const int64_t row = pass.quads.size() * lanes * o;
  const int64_t taps = std::max<int64_t>(1, pass.taps.size() * conv_.geometry.plane_taps());
  const int64_t capacity = std::max<int64_t>(1, static_cast<int64_t>(stage_bytes(site_) / kVec4Bytes) / row);
  const int64_t stage_taps = ceil_div(taps, ceil_div(taps, capacity));
  const bool full = pass.quads.end < cut_.in_quads();  // the last quad of the input is not in this pass
  const int64_t tail = full ? lanes : cut_.input_tail();
  Kernel k(lowering_, "conv_packed", conv_.label);
  k.name(cat("conv_packed ", pass.quads.size() * lanes, "→", o * 4, pass.first && pass.last ? "" : " part"));
  k.workgroup(wg_);
  const int64_t inputs = cut_.bind_inputs(part, k);
  cut_.bind_weights(part, k);
  const std::string functions = cut_.bind_output(part, k);
  if (with_stats) cut_.bind_stats(*stats_, part, k);
  add_params(part, k);
  add_geometry(k);
  k.param("stage_taps", stage_taps);
  if (tuning_.stage_weights) k.shared("stage", wgsl::vec4f, static_cast<uint64_t>(row * stage_taps));
  k.text("functions", load_function(pass, inputs) + functions + cut_.sum_types(part.quads));
  k.constant("tail", tail).constant("rest", lanes - tail).flag("several", pass.quads.size() > 1);
  k.constant("lanes", lanes).flag("vector", lanes == 4).text("T", "vec4<f32>").flag("staged", tuning_.stage_weights);
  k.constant("o", o).constant("v", voxels_).constant("row", row);
  k.constant("group_voxels", static_cast<int64_t>(group_voxels()));
  k.flag("first", pass.first).flag("last", pass.last).flag("stats", with_stats).text("epilogue", conv_.epilogue);
  k.dispatch(groups_of(part.range), cut_.cost(part));
}

}  // namespace

const ConvKernel kDirectConv = {
    "direct", [](const ConvSite&) { return true; }, orders,
    [](Lowering& lowering, const PackedConv& conv, StatsTarget* stats) { DirectConv(lowering, conv).run(stats); }};

}  // namespace gyrus
