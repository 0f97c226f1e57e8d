// The kernel conv_winograd: three taps along H with stride 1.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "plan/conv_cut.h"

namespace gyrus {
namespace {

constexpr int64_t kPoints = 6;   // products of a run
constexpr int64_t kOutputs = 4;  // voxels of a run

// G of F(4,3): weights of three taps at the six points.
constexpr double kWeightTransform[kPoints][3] = {{1.0 / 4, 0, 0},
                                                 {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                                 {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                                 {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                                 {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                                 {0, 0, 1}};

// Runs and output quads of one thread: as many sums as registers hold, with as few quads that hold no channel as may
// be.
struct Shape43 {
  int64_t tiles = 2;
  int64_t quads = 2;
};

Shape43 shape_for(int64_t out_quads) {
  if (out_quads == 1) return {2, 1};
  if (out_quads == 3) return {1, 3};
  return {2, 2};
}

class WinogradConv {
 public:
  WinogradConv(Lowering& lowering, const PackedConv& conv)
      : lowering_(lowering),
        conv_(conv),
        shape_(shape_for(conv.geometry.out_quads())),
        cut_(lowering, conv, options()) {
    quads_ = std::min(shape_.quads, cut_.out_groups()[0].size());
    wg_ = lowering.workgroup(lowering.options().conv.workgroup);
    while (wg_ > 32 && stats_bytes() + row_bytes() > shared()) wg_ /= 2;
    stage_rows_ = std::max<int64_t>(1, static_cast<int64_t>((shared() - stats_bytes()) / row_bytes()));
    stage_rows_ = std::min(stage_rows_, cut_.in_quads());
  }

  void run(StatsTarget* stats) {
    const auto groups_of = [this](const PlaneRange& range) { return this->groups_of(range); };
    uint64_t parts = 0;
    for (const PlaneRange& range : cut_.ranges()) parts += groups_of(range);
    if (cut_.begin_stats(stats, parts)) stats_ = stats;
    std::vector<std::vector<float>> weights;
    for (const PlaneRange& quads : cut_.out_groups()) weights.push_back(arrange_weights(quads));
    cut_.each_dispatch(
        groups_of, [&](size_t group, const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass,
                       const Storage& sums, uint64_t part) { emit(quads, range, pass, sums, weights[group], part); });
  }

 private:
  uint64_t shared() const { return lowering_.limits().max_compute_workgroup_storage_size; }
  static int64_t row(int64_t quads) { return kPoints * 4 * quads; }  // vec4 of weights for one input quad and tap pair
  static int64_t last_point(int64_t quads) { return 4 * quads; }     // of them of the last point
  uint64_t row_bytes() const { return static_cast<uint64_t>(row(quads_)) * kVec4Bytes; }
  uint64_t stats_bytes() const { return conv_.stats && cut_.gathers_stats() ? wg_ * (2 * kVec4Bytes + 4) : 0; }
  int64_t voxels() const { return shape_.tiles * kOutputs; }
  // Runs of voxels in the residue classes of the dilation, the last of a class perhaps short.
  int64_t runs() const {
    const int64_t dilation = conv_.geometry.dilation[1];
    return dilation * ceil_div(ceil_div(conv_.geometry.out[1], dilation), voxels());
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

  uint64_t groups_of(const PlaneRange& range) const { return static_cast<uint64_t>(range.size()) * plane_groups(); }

  CutOptions options() const {
    CutOptions o;
    o.output_quads = conv_.geometry.out_quads();
    // Channels that groups of quads hold in vain are left out where a dispatch of its own for the last group pays: not
    // where windows make dispatches short, since each waits for the one before.
    const int64_t held = ceil_div(conv_.geometry.out_quads(), shape_.quads) * shape_.quads * 4;
    const uint64_t binding = lowering_.limits().max_storage_buffer_binding_size;
    const bool whole = conv_.in->bytes() <= binding && conv_.out->bytes() <= binding;
    if (whole && held - conv_.geometry.out_channels >= 3) o.tail_unit = shape_.quads;
    o.stats = conv_.stats && lowering_.options().conv.gather_statistics;
    return o;
  }

  // Rows [kd][kw][input quad][output group], then biases [output quad].
  std::vector<float> arrange_weights(const PlaneRange& quads) const {
    const ConvGeometry& g = conv_.geometry;
    const int64_t held = std::min(quads_, quads.size());  // by a thread
    const int64_t groups = ceil_div(quads.size(), held);
    const int64_t rows = g.kernel[0] * g.kernel[2] * g.in_quads() * groups;
    std::vector<float> values(static_cast<size_t>((rows * row(held) + groups * held) * 4), 0.0f);
    for (int64_t o = quads.begin * 4; o < std::min(quads.end * 4, g.out_channels); ++o) {
      const int64_t quad = o / 4 - quads.begin;
      for (int64_t c = 0; c < g.in_channels; ++c)
        for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
          for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
            const int64_t at = ((kd * g.kernel[2] + kw) * g.in_quads() + c / 4) * groups + quad / held;
            for (int64_t p = 0; p < kPoints; ++p) {
              double sum = 0;
              for (int64_t kh = 0; kh < 3; ++kh)
                sum += kWeightTransform[p][kh] *
                       get(*conv_.weight, (((o * g.in_channels + c) * g.kernel[0] + kd) * 3 + kh) * g.kernel[2] + kw);
              const int64_t vec4 = at * row(held) + (p * 4 + c % 4) * held + quad % held;
              values[static_cast<size_t>(vec4 * 4 + o % 4)] = static_cast<float>(sum);
            }
          }
      if (conv_.bias)
        values[static_cast<size_t>((rows * row(held) + quad) * 4 + o % 4)] = static_cast<float>(get(*conv_.bias, o));
    }
    return values;
  }

  // The weights of the last point as words.
  static std::vector<uint32_t> words_of_last_point(const std::vector<float>& weights, int64_t rows, int64_t quads) {
    std::vector<uint32_t> words(static_cast<size_t>(rows * last_point(quads) * 4));
    const size_t each = static_cast<size_t>(last_point(quads) * 4);
    for (size_t r = 0; r < static_cast<size_t>(rows); ++r)
      std::memcpy(&words[r * each], &weights[(r + 1) * static_cast<size_t>(row(quads) * 4) - each], each * 4);
    return words;
  }

  // Workgroup memory is read at a rate that these kernels reach; a sixth of the weights as uniforms relieves it. With
  // halves, or the short dispatch of a last group, it was measured to cost more than it saves.
  bool uniform_pays(uint64_t bytes) const {
    return bytes <= lowering_.limits().max_uniform_buffer_binding_size && conv_.in->dtype == DType::F32 &&
           cut_.out_groups().size() == 1;
  }

  // v0_0 …: the six rows of each run as f32; neighbouring runs share two rows.
  std::string unpack_rows() const {
    std::string text;
    for (int64_t r = 0; r < voxels() + 2; ++r) {
      const std::string raw = r == 0 ? "first" : r <= voxels() ? cat("inner", r - 1) : "last";
      text += cat("          let row", r, " = ", unpack_unit(*conv_.in, raw), ";\n");
    }
    for (int64_t t = 0; t < shape_.tiles; ++t)
      for (int64_t i = 0; i < kPoints; ++i)
        text += cat("          let v", t, "_", i, " = row", t * kOutputs + i, ";\n");
    return text;
  }

  void emit(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass, const Storage& sums,
            const std::vector<float>& weights, uint64_t part);
  void add_params(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass, Params& to) const;

  Lowering& lowering_;
  const PackedConv& conv_;
  Shape43 shape_;
  ConvCut cut_;
  int64_t quads_ = 1;
  int64_t stage_rows_ = 1;
  uint32_t wg_ = 64;
  StatsTarget* stats_ = nullptr;
};

void WinogradConv::add_params(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass,
                              Params& to) const {
  const ConvGeometry& g = conv_.geometry;
  const auto add = [&to](const char* name, int64_t value) { to.add(name, static_cast<uint64_t>(value)); };
  add("plane_groups", static_cast<int64_t>(plane_groups()));
  add("runs", runs());
  add("out_quads", quads.size());
  add("origin_d", range.begin * g.stride[0] - g.pad[0]);
  add("first_quad", pass.quads.begin);
  add("all_quads", g.in_quads());
  add("bias", g.kernel[0] * g.kernel[2] * g.in_quads() * ceil_div(quads.size(), std::min(quads_, quads.size())) *
                  row(std::min(quads_, quads.size())));
}

void WinogradConv::emit(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass, const Storage& sums,
                        const std::vector<float>& weights, uint64_t part) {
  const ConvGeometry& g = conv_.geometry;
  const bool with_stats = stats_ && pass.last;
  const int64_t held = std::min(quads_, quads.size());
  const int64_t out_groups = ceil_div(quads.size(), held);
  ConvOperands operands;
  DispatchSpec& d = operands.dispatch;
  d.params = PlanBuilder::begin_params();
  cut_.bind_inputs(range, pass, operands);
  cut_.bind_weights(lowering_.builder().add_constant_floats(weights, conv_.label + ".weight"), operands);
  cut_.bind_output(quads, range, pass, sums, operands);
  if (with_stats) cut_.bind_stats(*stats_, quads, part, operands);
  add_params(quads, range, pass, d.params);
  const int64_t rows = g.kernel[0] * g.kernel[2] * g.in_quads() * out_groups;
  const bool uniform = uniform_pays(static_cast<uint64_t>(rows * last_point(held)) * kVec4Bytes);
  if (uniform) {
    d.uniforms = {lowering_.builder().add_uniform(words_of_last_point(weights, rows, held))};
    operands.bindings += cat("@group(0) @binding(", d.reads.size() + d.writes.size() + 1,
                             ") var<uniform> last_point: array<LastPoint, ", rows, ">;\n");
  }
  KernelVars vars;
  vars["params"] = d.params.declaration();
  vars["bindings"] = operands.bindings;
  // A last quad of the input that is not full has its products apart, so that those of the others stay one block. For a
  // lane among many that costs more than it saves.
  const int64_t in_vain = 4 * g.in_quads() - g.in_channels;
  const bool full = pass.quads.end < cut_.in_quads() || (in_vain < 2 && 3 * in_vain < g.in_quads());
  // Groups of one dispatch share their text, so only a single one may end in a quad that is not full.
  const PlaneRange shared_text = out_groups == 1 ? quads : PlaneRange{0, held};
  vars["loads"] = operands.functions + cut_.sum_types(shared_text);
  vars["uniform"] = uniform ? "1" : "";
  const int64_t staged = row(held) - (uniform ? last_point(held) : 0);
  vars["staged"] = std::to_string(staged);
  vars["tail"] = full ? "" : std::to_string(cut_.input_tail());
  vars["full_quads"] = std::to_string(pass.quads.size() - (full ? 0 : 1));
  vars["inputs"] = std::to_string(operands.inputs);
  vars["taps_apart"] = pass.taps_apart() ? "1" : "";
  vars["planes_in"] = std::to_string(g.in[0]);
  vars["in_stride"] = std::to_string(cut_.in_stride());
  vars["zero"] = zero_unit(*conv_.in);
  vars["unpack"] = unpack_rows();
  vars["T"] = "vec4<f32>";
  vars["tiles"] = std::to_string(shape_.tiles);
  vars["voxels"] = std::to_string(voxels());
  // Runs fill H and its classes without remainder, so that most rows need no check. (With one run to a thread the
  // branch around them costs more.)
  const bool exact = shape_.tiles > 1 && g.out[1] % (g.dilation[1] * voxels()) == 0 && g.in[1] == g.out[1] &&
                     g.pad[1] == g.dilation[1];
  vars["exact"] = exact ? "1" : "";
  vars["o"] = std::to_string(held);
  vars["row"] = std::to_string(row(held));
  vars["lanes"] = "4";
  vars["products"] = expand_kernel("conv_winograd_products", vars);
  KernelVars in_tail = vars;
  in_tail["lanes"] = vars["tail"];
  vars["tail_products"] = full ? "" : expand_kernel("conv_winograd_products", in_tail);
  vars["lanes"] = std::to_string(last_point(held));
  const int64_t all_rows = g.kernel[2] * pass.quads.size();
  // All taps along W at a time save barriers; with many quads they leave too little of the cache that lies beside.
  const bool stage_all =
      pass.quads.size() <= 5 && stats_bytes() + static_cast<uint64_t>(all_rows * staged) * kVec4Bytes <= shared();
  vars["stage_all"] = stage_all ? "1" : "";
  vars["stage_rows"] = std::to_string(stage_all ? all_rows : stage_rows_);
  vars["out_groups"] = std::to_string(out_groups);
  vars["wg"] = std::to_string(wg_);
  vars["block"] = std::to_string(block());
  vars["blocks"] = std::to_string(block() ? g.out[2] / block() : 0);
  vars["w_in"] = std::to_string(g.in[2]);
  vars["h_in"] = std::to_string(g.in[1]);
  vars["w_out"] = std::to_string(g.out[2]);
  vars["h_out"] = std::to_string(g.out[1]);
  vars["stride_d"] = std::to_string(g.stride[0]);
  vars["pad_h"] = std::to_string(g.pad[1]);
  vars["pad_w"] = std::to_string(g.pad[2]);
  vars["dilation_d"] = std::to_string(g.dilation[0]);
  vars["dilation_h"] = std::to_string(g.dilation[1]);
  vars["dilation_w"] = std::to_string(g.dilation[2]);
  vars["taps_w"] = std::to_string(g.kernel[2]);
  vars["tap_begin"] = std::to_string(pass.taps.begin);
  vars["tap_end"] = std::to_string(pass.taps.end);
  vars["quads"] = std::to_string(pass.quads.size());
  vars["one_stage"] = stage_all || pass.quads.size() <= stage_rows_ ? "1" : "";
  vars["first"] = pass.first ? "1" : "";
  vars["last"] = pass.last ? "1" : "";
  vars["stats"] = with_stats ? "1" : "";
  vars["epilogue"] = conv_.epilogue;
  d.wgsl = expand_kernel("conv_winograd", vars);
  d.name = cat("conv_winograd ", pass.quads.size() * 4, "→", quads.size() * 4, pass.first && pass.last ? "" : " part");
  d.label = conv_.label;
  d.workgroup = wg_;
  d.groups = static_cast<uint64_t>(range.size()) * plane_groups() * static_cast<uint64_t>(out_groups);
  d.flops = cut_.flops(quads, range, pass);
  lowering_.builder().dispatch(d);
}

}  // namespace

bool suits_winograd(const Lowering& lowering, const PackedConv& conv) {
  const ConvGeometry& g = conv.geometry;
  if (!lowering.options().conv.winograd || conv.in->lanes != 4) return false;
  if (g.kernel[1] != 3 || g.stride[1] != 1 || g.stride[2] != 1) return false;
  // One row of weights and one group's sums must fit the smallest workgroup memory.
  constexpr uint64_t kLeastShared = 4096;
  if (lowering.limits().max_compute_workgroup_storage_size < kLeastShared) return false;
  // Runs of voxels that the volume does not have would cost more than the products they save.
  const int64_t in_class = ceil_div(g.out[1], g.dilation[1]);
  const int64_t voxels = shape_for(g.out_quads()).tiles * kOutputs;
  return 3 * in_class >= 2 * ceil_div(in_class, voxels) * voxels;
}

void emit_winograd_conv(Lowering& lowering, const PackedConv& conv, StatsTarget* stats) {
  WinogradConv(lowering, conv).run(stats);
}

}  // namespace gyrus
