// The kernel conv_packed: any kernel size, stride and dilation.
#include <algorithm>

#include "core/error.h"
#include "plan/conv_cut.h"

namespace gyrus {
namespace {

class DirectConv {
 public:
  DirectConv(Lowering& lowering, const PackedConv& conv)
      : lowering_(lowering), tuning_(lowering.options().conv), conv_(conv), cut_(lowering, conv, options()) {
    wg_ = lowering_.workgroup(tuning_.workgroup);
    while (wg_ > 1 && 2 * wg_ * kVec4Bytes > shared()) wg_ /= 2;
    const int64_t quads = cut_.out_groups()[0].size();
    const int64_t registers = std::max<int64_t>(tuning_.registers, quads > 4 ? quads * 4 : 0);
    while (voxels_ < 8 && voxels_ * 2 * quads <= registers) voxels_ *= 2;
    const auto all = static_cast<uint64_t>((conv_.plane_end - conv_.plane_begin) * cut_.plane_out());
    while (voxels_ > 1 && group_voxels() > all) voxels_ /= 2;
  }

  void run(StatsTarget* stats) {
    const auto groups_of = [this](const PlaneRange& range) { return this->groups_of(range); };
    uint64_t parts = 0;
    for (const PlaneRange& range : cut_.ranges()) parts += groups_of(range);
    if (cut_.begin_stats(stats, parts)) stats_ = stats;
    std::vector<BufferRange> weights;
    for (const PlaneRange& quads : cut_.out_groups()) weights.push_back(upload_weights(quads));
    cut_.each_dispatch(
        groups_of, [&](size_t group, const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass,
                       const Storage& sums, uint64_t part) { emit(quads, range, pass, sums, weights[group], part); });
  }

 private:
  uint64_t shared() const { return lowering_.limits().max_compute_workgroup_storage_size; }
  uint64_t group_voxels() const { return uint64_t{voxels_} * wg_; }
  uint64_t groups_of(const PlaneRange& range) const {
    const auto voxels = static_cast<uint64_t>(range.size() * cut_.plane_out());
    return (voxels + group_voxels() - 1) / group_voxels();
  }

  CutOptions options() const {
    CutOptions o;
    const int64_t quads = conv_.geometry.out_quads();
    // A single input channel leaves registers for more sums, and each of its reads then serves more products.
    const bool wide = tuning_.quads == 4;
    const int64_t most = wide && conv_.in->lanes == 1 ? 8 : wide && quads == 5 ? 5 : tuning_.quads;
    o.output_quads = ceil_div(quads, ceil_div(quads, most));
    o.stats = conv_.stats && tuning_.gather_statistics;
    // The weights of one tap must fit the workgroup's memory.
    if (tuning_.stage_weights) {
      const auto row = static_cast<uint64_t>(o.output_quads * conv_.in->lanes) * kVec4Bytes;
      o.input_quads = std::max<int64_t>(1, static_cast<int64_t>(shared() / row));
    }
    return o;
  }

  // Weights [tap][input lane][output quad] of vec4, then biases.
  BufferRange upload_weights(const PlaneRange& quads) {
    const ConvGeometry& g = conv_.geometry;
    const int64_t taps = g.kernel[0] * g.plane_taps();
    const int64_t lanes = cut_.in_quads() * conv_.in->lanes;
    std::vector<float> values(static_cast<size_t>((taps * lanes + 1) * quads.size() * 4), 0.0f);
    const auto put = [&](int64_t row, int64_t o, double value) {
      values[static_cast<size_t>((row * quads.size() + o / 4 - quads.begin) * 4 + o % 4)] = static_cast<float>(value);
    };
    for (int64_t o = quads.begin * 4; o < std::min(quads.end * 4, g.out_channels); ++o) {
      for (int64_t c = 0; c < g.in_channels; ++c)
        for (int64_t t = 0; t < taps; ++t)
          put(t * lanes + c, o, get(*conv_.weight, (o * g.in_channels + c) * taps + t));
      if (conv_.bias) put(taps * lanes, o, get(*conv_.bias, o));
    }
    return lowering_.builder().add_constant_floats(values, conv_.label + ".weight");
  }

  // A voxel outside counts as zero; the index stays inside the array either way.
  std::string load_function(const ConvPass& pass, int64_t inputs) const {
    const std::string value = conv_.in->lanes == 4 ? "vec4<f32>" : "f32";
    std::string text = cat("fn load(kd: u32, d: i32, at: u32, ok: bool) -> ", value, " {\n");
    const auto read = [](int64_t b) { return cat("in", b, "[select(0u, at + P.in", b, "_shift, ok)];\n"); };
    if (!pass.taps_apart()) {
      text += "  let raw = " + read(0);
    } else {
      text += cat("  var raw = ", zero_unit(*conv_.in), ";\n");
      for (int64_t b = 0; b < inputs; ++b)
        text += cat("  if (kd == P.in", b, "_tap && u32(d) - P.in", b, "_begin < P.in", b,
                    "_planes) {\n    raw = ", read(b), "  }\n");
    }
    return cat(text, "  return select(", value, "(0.0), ", unpack_unit(*conv_.in, "raw"), ", ok);\n}\n");
  }

  void emit(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass, const Storage& sums,
            const BufferRange& weights, uint64_t part);
  void add_params(const PlaneRange& range, const ConvPass& pass, int64_t quads, int64_t stage_taps, Params& to) const;

  Lowering& lowering_;
  ConvTuning tuning_;
  const PackedConv& conv_;
  ConvCut cut_;
  uint32_t wg_ = 1;
  uint32_t voxels_ = 1;
  StatsTarget* stats_ = nullptr;
};

void DirectConv::add_params(const PlaneRange& range, const ConvPass& pass, int64_t quads, int64_t stage_taps,
                            Params& to) const {
  const ConvGeometry& g = conv_.geometry;
  const int64_t lanes = conv_.in->lanes;
  const int64_t full_row = cut_.in_quads() * lanes * quads;  // vec4 of weights for one tap
  const auto add = [&to](const char* name, int64_t value) { to.add(name, static_cast<uint64_t>(value)); };
  add("voxels", range.size() * cut_.plane_out());
  add("origin_d", range.begin * g.stride[0] - g.pad[0]);
  add("pad_h", g.pad[1]);
  add("pad_w", g.pad[2]);
  add("dilation_d", g.dilation[0]);
  add("dilation_h", g.dilation[1]);
  add("dilation_w", g.dilation[2]);
  add("tap_begin", pass.taps.begin * g.plane_taps());
  add("tap_end", pass.taps.end * g.plane_taps());
  add("taps_hw", g.plane_taps());
  add("taps_w", g.kernel[2]);
  add("stage_taps", stage_taps);
  add("quads", pass.quads.size());
  add("full_quads", pass.quads.size() - 1);
  add("weights", pass.quads.begin * lanes * quads);
  add("weight_stride", full_row);
  add("bias", g.kernel[0] * g.plane_taps() * full_row);
}

void DirectConv::emit(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass, const Storage& sums,
                      const BufferRange& weights, uint64_t part) {
  const ConvGeometry& g = conv_.geometry;
  const int64_t o = quads.size();
  const bool with_stats = stats_ && pass.last;
  ConvOperands operands;
  DispatchSpec& d = operands.dispatch;
  d.params = PlanBuilder::begin_params();
  cut_.bind_inputs(range, pass, operands);
  cut_.bind_weights(weights, operands);
  cut_.bind_output(quads, range, pass, sums, operands);
  if (with_stats) cut_.bind_stats(*stats_, quads, part, operands);
  const int64_t row = pass.quads.size() * conv_.in->lanes * o;
  const int64_t taps = std::max<int64_t>(1, pass.taps.size() * g.plane_taps());
  const int64_t capacity = std::max<int64_t>(1, static_cast<int64_t>(shared() / kVec4Bytes) / row);
  const int64_t stage_taps = ceil_div(taps, ceil_div(taps, capacity));
  uint64_t stage = tuning_.stage_weights ? static_cast<uint64_t>(row * stage_taps) : 0;
  if (with_stats) stage = std::max<uint64_t>(stage, 2 * wg_);
  add_params(range, pass, o, stage_taps, d.params);
  KernelVars vars;
  vars["params"] = d.params.declaration();
  vars["bindings"] = operands.bindings;
  const bool full = pass.quads.end < cut_.in_quads();  // the last quad of the input is not in this pass
  const int64_t tail = full ? conv_.in->lanes : cut_.input_tail();
  vars["loads"] = load_function(pass, operands.inputs) + operands.functions + cut_.sum_types(quads);
  vars["tail"] = std::to_string(tail);
  vars["rest"] = std::to_string(conv_.in->lanes - tail);
  vars["several"] = pass.quads.size() > 1 ? "1" : "";
  vars["planes_in"] = std::to_string(g.in[0]);
  vars["plane_in"] = std::to_string(cut_.plane_in());
  vars["in_stride"] = std::to_string(cut_.in_stride());
  vars["lanes"] = std::to_string(conv_.in->lanes);
  vars["vector"] = conv_.in->lanes == 4 ? "1" : "";
  vars["T"] = "vec4<f32>";
  vars["stage"] = stage ? std::to_string(stage) : "";
  vars["staged"] = tuning_.stage_weights ? "1" : "";
  vars["o"] = std::to_string(o);
  vars["v"] = std::to_string(voxels_);
  vars["wg"] = std::to_string(wg_);
  vars["group_voxels"] = std::to_string(group_voxels());
  vars["row"] = std::to_string(row);
  vars["w_in"] = std::to_string(g.in[2]);
  vars["h_in"] = std::to_string(g.in[1]);
  vars["w_out"] = std::to_string(g.out[2]);
  vars["plane_out"] = std::to_string(cut_.plane_out());
  vars["stride_d"] = std::to_string(g.stride[0]);
  vars["stride_h"] = std::to_string(g.stride[1]);
  vars["stride_w"] = std::to_string(g.stride[2]);
  vars["first"] = pass.first ? "1" : "";
  vars["last"] = pass.last ? "1" : "";
  vars["stats"] = with_stats ? "1" : "";
  vars["epilogue"] = conv_.epilogue;
  d.wgsl = expand_kernel("conv_packed", vars);
  d.name = cat("conv_packed ", pass.quads.size() * conv_.in->lanes, "→", o * 4, pass.first && pass.last ? "" : " part");
  d.label = conv_.label;
  d.workgroup = wg_;
  d.groups = groups_of(range);
  d.flops = cut_.flops(quads, range, pass);
  lowering_.builder().dispatch(d);
}

}  // namespace

void emit_direct_conv(Lowering& lowering, const PackedConv& conv, StatsTarget* stats) {
  DirectConv(lowering, conv).run(stats);
}

void emit_packed_conv(Lowering& lowering, const PackedConv& conv, StatsTarget* stats) {
  if (suits_winograd(lowering, conv))
    emit_winograd_conv(lowering, conv, stats);
  else
    emit_direct_conv(lowering, conv, stats);
}

}  // namespace gyrus
