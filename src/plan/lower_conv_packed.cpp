// Cuts a packed convolution into dispatches that keep the limits.
//
// Output channels go in groups of quads that one thread holds in registers. Where the whole input (or output) fits one
// binding it is bound as a whole; else every quad is a binding of its own, over a window of planes with its halo. A
// halo that no window can hold, or more input quads than there are bindings, is summed over several dispatches: planes
// of taps one after another, or some input quads after others. Halves are summed in a scratch of f32.
#include <algorithm>

#include "core/error.h"
#include "plan/lower_conv.h"

namespace gyrus {
namespace {

constexpr uint64_t kVec4Bytes = 16;

// What one dispatch sums: planes of taps and quads of input channels.
struct Pass {
  int64_t tap_begin = 0, tap_end = 0;    // along the slowest axis
  int64_t quad_begin = 0, quad_end = 0;  // of input channels
};

struct PlaneRange {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

class PackedConvEmitter {
 public:
  PackedConvEmitter(Lowering& lowering, const PackedConv& conv) : lowering_(lowering), c_(conv), g_(conv.geometry) {
    choose();
  }

  uint64_t parts() {
    uint64_t count = 0;
    for (const PlaneRange& range : out_ranges()) count += groups_of(range);
    return count;
  }

  // Statistics need one binding more, on the last pass.
  bool can_gather_stats() const { return stats_fit_; }

  void run(const StatsTarget* stats) {
    upload_weights();
    for (size_t group = 0; group < out_groups_.size(); ++group) {
      uint64_t part = 0;
      for (const PlaneRange& range : out_ranges()) {
        emit_range(group, range, stats, part);
        part += groups_of(range);
      }
    }
  }

 private:
  const Limits& limits() const { return lowering_.limits(); }
  int64_t plane_in() const { return g_.in[1] * g_.in[2]; }
  int64_t plane_out() const { return g_.out[1] * g_.out[2]; }
  int64_t in_slabs() const { return in_lanes_ == 4 ? g_.in_quads() : 1; }
  uint64_t group_voxels() const { return uint64_t{voxels_} * wg_; }
  uint64_t groups_of(const PlaneRange& range) const {
    const uint64_t voxels = static_cast<uint64_t>((range.end - range.begin) * plane_out());
    return (voxels + group_voxels() - 1) / group_voxels();
  }
  uint64_t in_first(int64_t slab, int64_t plane) const {
    return static_cast<uint64_t>((c_.image * in_slabs() + slab) * g_.in[0] + plane) * plane_in();
  }
  uint64_t out_first(int64_t quad, int64_t plane) const {
    return static_cast<uint64_t>(c_.out_image * g_.out_quads() + quad) * c_.out->slab_units +
           static_cast<uint64_t>((plane - c_.plane_origin) * plane_out());
  }
  uint64_t row_bytes(int64_t slabs, int64_t quads) const { return static_cast<uint64_t>(slabs) * in_lanes_ * quads * kVec4Bytes; }

  void choose() {
    in_lanes_ = c_.in->lanes;
    tuning_ = lowering_.options().conv;
    wg_ = lowering_.workgroup(tuning_.workgroup);
    const uint64_t shared = limits().max_compute_workgroup_storage_size;
    while (wg_ > 1 && 2 * wg_ * kVec4Bytes > shared) wg_ /= 2;
    in_whole_ = fits_window(*c_.in, in_first(0, 0), static_cast<uint64_t>(in_slabs() * g_.in[0] * plane_in()), limits());
    out_whole_ = fits_window(*c_.out, out_first(0, c_.plane_begin), out_span(), limits());
    const int64_t bindings = limits().max_storage_buffers_per_shader_stage;
    const int64_t weights = 1;
    const int64_t wanted = out_group_size();
    for (int attempt = 0; attempt < 2; ++attempt) {
      stats_fit_ = c_.stats && tuning_.gather_statistics && attempt == 0;
      const int64_t free = bindings - weights - (stats_fit_ ? 1 : 0);
      // Sums over several dispatches of a half-precision result need the scratch binding as well.
      if (in_whole_) {
        in_per_pass_ = in_slabs();
        out_per_group_ = out_whole_ ? wanted : std::min(wanted, free - 1);
      } else if (in_slabs() + 1 <= free && (out_whole_ || in_slabs() + std::min<int64_t>(2, wanted) <= free)) {
        in_per_pass_ = in_slabs();
        out_per_group_ = out_whole_ ? wanted : std::min(wanted, free - in_slabs());
      } else {
        const int64_t scratch = c_.out->dtype == DType::F16 ? 1 : 0;
        const int64_t passes = ceil_div(in_slabs(), std::max<int64_t>(1, free - scratch - 1));
        in_per_pass_ = ceil_div(in_slabs(), passes);
        out_per_group_ = out_whole_ ? wanted : std::min(wanted, free - scratch - in_per_pass_);
      }
      if (out_per_group_ >= 1 || !c_.stats) break;
    }
    if (out_per_group_ < 1)
      fail(ErrorCode::OverLimits, c_.label, "a convolution needs at least 3 storage buffers a stage; the device allows ", bindings);
    // The weights of one tap must fit the workgroup's memory: fewer quads at a time where they do not.
    if (tuning_.stage_weights) {
      while (out_per_group_ > 1 && row_bytes(1, out_per_group_) > shared) --out_per_group_;
      const int64_t fit = std::max<int64_t>(1, static_cast<int64_t>(shared / row_bytes(1, out_per_group_)));
      if (fit < in_per_pass_) in_per_pass_ = fit;
    }
    for (int64_t quad = 0; quad < g_.out_quads(); quad += out_per_group_)
      out_groups_.push_back({quad, std::min(quad + out_per_group_, g_.out_quads())});
    voxels_ = 1;
    while (voxels_ < 8 && voxels_ * 2 * out_per_group_ <= tuning_.registers + (out_per_group_ == 5 ? 4 : 0)) voxels_ *= 2;
    const uint64_t all = static_cast<uint64_t>((c_.plane_end - c_.plane_begin) * plane_out());
    while (voxels_ > 1 && group_voxels() > all) voxels_ /= 2;
  }

  uint64_t out_span() const {
    return static_cast<uint64_t>(g_.out_quads() - 1) * c_.out->slab_units +
           static_cast<uint64_t>((c_.plane_end - c_.plane_begin) * plane_out());
  }

  // Quads of output channels that one thread makes: as many as registers hold, evenly shared.
  int64_t out_group_size() const {
    const int64_t quads = g_.out_quads();
    const int64_t most = quads == 5 && tuning_.quads == 4 ? 5 : tuning_.quads;
    return ceil_div(quads, ceil_div(quads, most));
  }

  // The input planes that taps [t0, t1) of output planes [p0, p1) read.
  PlaneRange needs(int64_t p0, int64_t p1, int64_t t0, int64_t t1) const {
    const int64_t lo = p0 * g_.stride[0] + t0 * g_.dilation[0] - g_.pad[0];
    const int64_t hi = (p1 - 1) * g_.stride[0] + (t1 - 1) * g_.dilation[0] - g_.pad[0] + 1;
    return {std::clamp<int64_t>(lo, 0, g_.in[0]), std::clamp<int64_t>(hi, 0, g_.in[0])};
  }

  bool input_fits(const PlaneRange& planes) const {
    if (in_whole_ || planes.empty()) return true;
    for (int64_t slab = 0; slab < in_slabs(); ++slab)
      if (!fits_window(*c_.in, in_first(slab, planes.begin), static_cast<uint64_t>((planes.end - planes.begin) * plane_in()), limits()))
        return false;
    return true;
  }

  bool output_fits(int64_t p0, int64_t p1) const {
    if (out_whole_) return true;
    for (int64_t quad = 0; quad < g_.out_quads(); ++quad)
      if (!fits_window(*c_.out, out_first(quad, p0), static_cast<uint64_t>((p1 - p0) * plane_out()), limits())) return false;
    return true;
  }

  // Whether the f32 sums of a half-precision result fit one buffer and binding.
  bool sums_fit(int64_t p0, int64_t p1) const {
    const uint64_t bytes = static_cast<uint64_t>((p1 - p0) * plane_out() * out_per_group_) * kVec4Bytes;
    return c_.out->dtype != DType::F16 || bytes <= std::min(limits().max_storage_buffer_binding_size, limits().max_buffer_size);
  }

  // Whether output planes [p0, p1) can be made with all taps at once, or with each plane of taps by itself.
  bool fits_at_once(int64_t p0, int64_t p1) const {
    if (in_per_pass_ < in_slabs() && !sums_fit(p0, p1)) return false;
    return output_fits(p0, p1) && input_fits(needs(p0, p1, 0, g_.kernel[0]));
  }
  bool fits_by_taps(int64_t p0, int64_t p1) const {
    if (!output_fits(p0, p1) || !sums_fit(p0, p1)) return false;
    for (int64_t t = 0; t < g_.kernel[0]; ++t)
      if (!input_fits(needs(p0, p1, t, t + 1))) return false;
    return true;
  }

  template <class Fits>
  int64_t longest(int64_t begin, Fits fits) const {
    if (!fits(begin, begin + 1)) return begin;
    int64_t good = begin + 1;
    int64_t bad = c_.plane_end + 1;
    while (bad - good > 1) {
      const int64_t middle = (good + bad) / 2;
      (fits(begin, middle) ? good : bad) = middle;
    }
    return good;
  }

  // Output planes in windows; the order is fixed, so that statistics know their parts.
  const std::vector<PlaneRange>& out_ranges() {
    if (!ranges_.empty()) return ranges_;
    for (int64_t at = c_.plane_begin; at < c_.plane_end;) {
      const int64_t at_once = longest(at, [this](int64_t a, int64_t b) { return fits_at_once(a, b); });
      const int64_t by_taps = longest(at, [this](int64_t a, int64_t b) { return fits_by_taps(a, b); });
      const int64_t end = std::max(at_once * 2 - at >= by_taps ? at_once : by_taps, at_once);
      if (end == at)
        fail(ErrorCode::OverLimits, c_.label, "one plane of the volume does not fit a binding of ",
             limits().max_storage_buffer_binding_size, " bytes: make the last two axes smaller");
      ranges_.push_back({at, end});
      at = end;
    }
    return ranges_;
  }

  std::vector<Pass> passes(const PlaneRange& range) const {
    std::vector<Pass> result;
    const bool at_once = fits_at_once(range.begin, range.end);
    const int64_t step = at_once ? g_.kernel[0] : 1;
    for (int64_t tap = 0; tap < g_.kernel[0]; tap += step)
      for (int64_t quad = 0; quad < in_slabs(); quad += in_per_pass_)
        if (!needs(range.begin, range.end, tap, tap + step).empty())
          result.push_back({tap, tap + step, quad, std::min(quad + in_per_pass_, in_slabs())});
    // Nothing but padding: the result is the bias.
    if (result.empty()) result.push_back({0, 0, 0, std::min(in_per_pass_, in_slabs())});
    return result;
  }

  // Weights [group][tap][input lane][output quad of the group] of vec4, then biases.
  void upload_weights() {
    const int64_t taps = g_.kernel[0] * g_.plane_taps();
    const int64_t in_lanes = in_slabs() * in_lanes_;
    for (const PlaneRange& group : out_groups_) {
      const int64_t quads = group.end - group.begin;
      std::vector<float> values(static_cast<size_t>((taps * in_lanes + 1) * quads * 4), 0.0f);
      const auto put = [&](int64_t row, int64_t quad, int64_t lane, double value) {
        values[static_cast<size_t>((row * quads + quad) * 4 + lane)] = static_cast<float>(value);
      };
      for (int64_t o = group.begin * 4; o < std::min(group.end * 4, g_.out_channels); ++o) {
        const int64_t quad = o / 4 - group.begin;
        for (int64_t c = 0; c < g_.in_channels; ++c)
          for (int64_t t = 0; t < taps; ++t)
            put(t * in_lanes + c, quad, o % 4, get(*c_.weight, (o * g_.in_channels + c) * taps + t));
        if (c_.bias) put(taps * in_lanes, quad, o % 4, get(*c_.bias, o));
      }
      weights_.push_back(lowering_.builder().add_constant_floats(values, c_.label + ".weight"));
    }
  }

  void emit_range(size_t group, const PlaneRange& range, const StatsTarget* stats, uint64_t part) {
    const std::vector<Pass> list = passes(range);
    const bool scratch = list.size() > 1 && c_.out->dtype == DType::F16;
    Storage sums;
    if (scratch) {
      const int64_t quads = out_groups_[group].end - out_groups_[group].begin;
      sums = lowering_.builder().add_storage({DType::F32, {1, quads * 4, range.end - range.begin, g_.out[1], g_.out[2]}, Layout::Packed},
                                             c_.label + ".sums");
    }
    for (size_t p = 0; p < list.size(); ++p)
      emit_pass(group, range, list[p], p == 0, p + 1 == list.size(), scratch ? &sums : nullptr, stats, part);
  }

  void emit_pass(size_t group, const PlaneRange& range, const Pass& pass, bool first, bool last, const Storage* sums,
                 const StatsTarget* stats, uint64_t part);
  void bind_inputs(const PlaneRange& planes, const Pass& pass, DispatchSpec& d, KernelVars& vars);
  void bind_outputs(size_t group, const PlaneRange& range, bool first, bool last, const Storage* sums, DispatchSpec& d, KernelVars& vars);

  Lowering& lowering_;
  const PackedConv& c_;
  const ConvGeometry& g_;
  ConvTuning tuning_;
  uint32_t in_lanes_ = 4;
  uint32_t wg_ = 64;
  uint32_t voxels_ = 4;
  bool in_whole_ = false;
  bool out_whole_ = false;
  bool stats_fit_ = false;
  int64_t in_per_pass_ = 1;
  int64_t out_per_group_ = 1;
  std::vector<PlaneRange> out_groups_;  // quads of output channels
  std::vector<PlaneRange> ranges_;
  std::vector<BufferRange> weights_;  // one for each group
};

void PackedConvEmitter::bind_inputs(const PlaneRange& planes, const Pass& pass, DispatchSpec& d, KernelVars& vars) {
  const std::string element = array_type(*c_.in);
  const std::string value = in_lanes_ == 4 ? "vec4<f32>" : "f32";
  std::string bindings;
  std::string loads;
  const int64_t inputs = in_whole_ ? 1 : pass.quad_end - pass.quad_begin;
  for (int64_t b = 0; b < inputs; ++b) {
    const int64_t slab = pass.quad_begin + b;
    const uint64_t count = in_whole_ ? static_cast<uint64_t>(in_slabs() * g_.in[0] * plane_in())
                                     : static_cast<uint64_t>(std::max<int64_t>(1, planes.end - planes.begin) * plane_in());
    const uint64_t from = in_whole_ ? in_first(0, 0) : in_first(slab, std::min(planes.begin, g_.in[0] - 1));
    const Window w = window(*c_.in, from, count, limits());
    d.reads.push_back(w.range);
    const uint64_t inside = in_whole_ ? in_first(slab, planes.begin) - from : 0;
    d.params.add(cat("in", b, "_skip"), w.skip + inside);
    d.bytes += static_cast<double>((planes.end - planes.begin) * plane_in()) * static_cast<double>(c_.in->unit_bytes()) *
               static_cast<double>(in_whole_ ? pass.quad_end - pass.quad_begin : 1);
    bindings += declare_binding(static_cast<size_t>(b + 1), cat("in", b), element, false);
    // A voxel outside counts as zero; the index stays inside the array either way.
    loads += cat("fn load", b, "(at: u32, ok: bool) -> ", value, " {\n  let raw = in", b, "[select(0u, at, ok)];\n  return select(",
                 value, "(0.0), ", unpack_unit(*c_.in, "raw"), ", ok);\n}\n");
  }
  bindings += declare_binding(static_cast<size_t>(inputs + 1), "weights", "vec4<f32>", false);
  vars["inputs"] = std::to_string(inputs);
  vars["whole"] = in_whole_ && in_slabs() > 1 ? "1" : "";
  vars["lanes"] = std::to_string(in_lanes_);
  vars["vector"] = in_lanes_ == 4 ? "1" : "";
  vars["bindings"] = bindings;
  vars["loads"] = loads;
}

void PackedConvEmitter::bind_outputs(size_t group, const PlaneRange& range, bool first, bool last, const Storage* sums,
                                     DispatchSpec& d, KernelVars& vars) {
  const PlaneRange& quads = out_groups_[group];
  const uint64_t voxels = static_cast<uint64_t>((range.end - range.begin) * plane_out());
  std::string functions;
  size_t binding = d.reads.size() + 1;
  const bool writes_result = last || !sums;
  const bool mask = g_.out_channels % 4 != 0 && !c_.keeps_zero && quads.end == g_.out_quads() && last;
  std::vector<std::string> targets;  // array expression for each quad
  if (writes_result) {
    for (int64_t q = quads.begin; q < quads.end; ++q) {
      const int64_t k = q - quads.begin;
      if (!out_whole_ || k == 0) {
        const Window w = out_whole_ ? window(*c_.out, out_first(quads.begin, range.begin),
                                             static_cast<uint64_t>(quads.end - quads.begin - 1) * c_.out->slab_units + voxels, limits())
                                    : window(*c_.out, out_first(q, range.begin), voxels, limits());
        d.writes.push_back(w.range);
        d.params.add(cat("out", k, "_skip"), w.skip);
        vars["bindings"] += declare_binding(binding++, cat("out", k), array_type(*c_.out), true);
      }
      targets.push_back(out_whole_ ? cat("out0[P.out0_skip + ", k, "u * ", c_.out->slab_units, "u + j]") : cat("out", k, "[P.out", k, "_skip + j]"));
    }
  }
  if (sums) {
    const Window w = window(*sums, 0, sums->units, limits());
    d.writes.push_back(w.range);
    vars["bindings"] += declare_binding(binding++, "sums", "vec4<f32>", true);
  }
  for (int64_t q = quads.begin; q < quads.end; ++q) {
    const int64_t k = q - quads.begin;
    const std::string sum = cat("sums[", k, "u * ", voxels, "u + j]");
    if (!first)
      functions += cat("fn resume", k, "(j: u32) -> vec4<f32> {\n  return ", sums ? sum : targets[k], ";\n}\n");
    if (!last) functions += cat("fn leave", k, "(j: u32, y: vec4<f32>) {\n  ", sums ? sum : targets[k], " = y;\n}\n");
    if (!last) continue;
    const std::string kept = mask && q + 1 == g_.out_quads() ? "select(vec4<f32>(0.0), value, " + lane_mask(g_.out_channels) + ")" : "value";
    functions += cat("fn store", k, "(j: u32, value: vec4<f32>) {\n  let y = ", kept, ";\n  ", targets[k], " = ", pack_unit(*c_.out, "y"), ";\n}\n");
  }
  d.bytes += static_cast<double>(voxels) * static_cast<double>(quads.end - quads.begin) * static_cast<double>(c_.out->unit_bytes());
  vars["loads"] += functions;
}

void PackedConvEmitter::emit_pass(size_t group, const PlaneRange& range, const Pass& pass, bool first, bool last,
                                  const Storage* sums, const StatsTarget* stats, uint64_t part) {
  const PlaneRange& quads = out_groups_[group];
  const int64_t o = quads.end - quads.begin;
  const int64_t slabs = pass.quad_end - pass.quad_begin;
  const PlaneRange planes = pass.tap_end > pass.tap_begin ? needs(range.begin, range.end, pass.tap_begin, pass.tap_end) : PlaneRange{0, 0};
  const uint64_t voxels = static_cast<uint64_t>((range.end - range.begin) * plane_out());
  const bool with_stats = stats && last;
  DispatchSpec d;
  KernelVars vars;
  d.params = PlanBuilder::begin_params();
  bind_inputs(planes, pass, d, vars);
  d.reads.push_back(weights_[group]);
  bind_outputs(group, range, first, last, sums, d, vars);
  if (with_stats) {
    d.writes.push_back({stats->buffer, 0, stats->bytes});
    vars["bindings"] += declare_binding(d.reads.size() + d.writes.size(), "stats", "vec4<f32>", true);
    d.params.add("stats", (static_cast<uint64_t>(quads.begin) * stats->parts + part) * 3);
    d.params.add("parts", stats->parts);
  }
  const uint64_t row = static_cast<uint64_t>(slabs) * in_lanes_ * o;  // vec4 of weights for one tap of this pass
  const uint64_t full_row = static_cast<uint64_t>(in_slabs()) * in_lanes_ * o;
  const int64_t taps = (pass.tap_end - pass.tap_begin) * g_.plane_taps();
  const int64_t capacity = std::max<int64_t>(1, static_cast<int64_t>(limits().max_compute_workgroup_storage_size / (row * kVec4Bytes)));
  const int64_t stages = std::max<int64_t>(1, ceil_div(std::max<int64_t>(taps, 1), std::min<int64_t>(capacity, 27)));
  const int64_t stage_taps = std::max<int64_t>(1, ceil_div(taps, stages));
  uint64_t stage = row * static_cast<uint64_t>(stage_taps);
  if (!tuning_.stage_weights) stage = 0;
  if (with_stats) stage = std::max<uint64_t>(stage, 2 * wg_);
  d.params.add("voxels", voxels);
  d.params.add("origin_d", static_cast<uint64_t>(range.begin * g_.stride[0] - g_.pad[0] - planes.begin));
  d.params.add("pad_h", static_cast<uint64_t>(g_.pad[1]));
  d.params.add("pad_w", static_cast<uint64_t>(g_.pad[2]));
  d.params.add("dilation_d", static_cast<uint64_t>(g_.dilation[0]));
  d.params.add("dilation_h", static_cast<uint64_t>(g_.dilation[1]));
  d.params.add("dilation_w", static_cast<uint64_t>(g_.dilation[2]));
  d.params.add("tap_begin", static_cast<uint64_t>(pass.tap_begin * g_.plane_taps()));
  d.params.add("tap_end", static_cast<uint64_t>(pass.tap_end * g_.plane_taps()));
  d.params.add("taps_hw", static_cast<uint64_t>(g_.plane_taps()));
  d.params.add("taps_w", static_cast<uint64_t>(g_.kernel[2]));
  d.params.add("stage_taps", static_cast<uint64_t>(stage_taps));
  d.params.add("in_planes", static_cast<uint64_t>(std::max<int64_t>(0, planes.end - planes.begin)));
  d.params.add("in_stride", c_.in->slab_units);
  d.params.add("quads", static_cast<uint64_t>(slabs));
  d.params.add("weights", static_cast<uint64_t>(pass.quad_begin) * in_lanes_ * o);
  d.params.add("weight_stride", full_row);
  d.params.add("bias", static_cast<uint64_t>(g_.kernel[0] * g_.plane_taps()) * full_row);
  vars["params"] = d.params.declaration();
  vars["T"] = "vec4<f32>";
  vars["stage"] = stage ? std::to_string(stage) : "";
  vars["staged"] = tuning_.stage_weights ? "1" : "";
  vars["o"] = std::to_string(o);
  vars["v"] = std::to_string(voxels_);
  vars["wg"] = std::to_string(wg_);
  vars["group_voxels"] = std::to_string(group_voxels());
  vars["row"] = std::to_string(row);
  vars["w_in"] = std::to_string(g_.in[2]);
  vars["h_in"] = std::to_string(g_.in[1]);
  vars["w_out"] = std::to_string(g_.out[2]);
  vars["plane_out"] = std::to_string(plane_out());
  vars["stride_d"] = std::to_string(g_.stride[0]);
  vars["stride_h"] = std::to_string(g_.stride[1]);
  vars["stride_w"] = std::to_string(g_.stride[2]);
  vars["first"] = first ? "1" : "";
  vars["last"] = last ? "1" : "";
  vars["stats"] = with_stats ? "1" : "";
  vars["epilogue"] = c_.epilogue;
  d.wgsl = expand_kernel("conv_packed", vars);
  d.name = cat("conv_packed ", slabs * in_lanes_, "→", o * 4, first && last ? "" : " part");
  d.label = c_.label;
  d.workgroup = wg_;
  d.groups = groups_of(range);
  // Real channels, not the padded ones.
  const double real_in = in_lanes_ == 1 ? 1.0 : static_cast<double>(std::min(pass.quad_end * 4, g_.in_channels) - pass.quad_begin * 4);
  const double real_out = static_cast<double>(std::min(quads.end * 4, g_.out_channels) - quads.begin * 4);
  d.flops = 2.0 * static_cast<double>(voxels) * static_cast<double>(taps) * real_in * real_out;
  lowering_.builder().dispatch(d);
}

}  // namespace

void emit_packed_conv(Lowering& lowering, const PackedConv& conv, StatsTarget* stats) {
  PackedConvEmitter emitter(lowering, conv);
  const bool gather = stats && emitter.can_gather_stats();
  if (gather) {
    stats->parts = emitter.parts();
    stats->bytes = stats->parts * static_cast<uint64_t>(conv.geometry.out_quads()) * 3 * kVec4Bytes;
    stats->buffer = lowering.builder().add_buffer(conv.label + ".stats", stats->bytes);
  }
  emitter.run(gather ? stats : nullptr);
}

}  // namespace gyrus
