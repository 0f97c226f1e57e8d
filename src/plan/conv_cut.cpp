#include "plan/conv_cut.h"

#include <algorithm>

#include "core/error.h"

namespace gyrus {

ConvCut::ConvCut(Lowering& lowering, const PackedConv& conv, const CutOptions& options) : lowering_(lowering), conv_(conv) {
  choose(options, false);
  cut_planes();
  // Only the cut shows whether halves are summed tap by tap, in a scratch that takes a binding.
  if (conv_.out->dtype != DType::F16 || in_whole_) return;
  const bool by_taps = std::any_of(ranges_.begin(), ranges_.end(), [this](const PlaneRange& r) { return !fits_at_once(r); });
  const int64_t bound = in_per_pass_ + (out_whole_ ? 1 : out_per_group_) + (stats_fit_ ? 1 : 0) + 2;  // weights, sums
  if (!by_taps || bound <= limits().max_storage_buffers_per_shader_stage) return;
  choose(options, true);
  cut_planes();
}

uint64_t ConvCut::in_first(int64_t slab, int64_t plane) const {
  return static_cast<uint64_t>(((conv_.image * in_slabs() + slab) * conv_.geometry.in[0] + plane) * plane_in());
}

uint64_t ConvCut::out_first(int64_t quad, int64_t plane) const {
  return static_cast<uint64_t>(conv_.out_image * conv_.geometry.out_quads() + quad) * conv_.out->slab_units +
         static_cast<uint64_t>((plane - conv_.plane_origin) * plane_out());
}

void ConvCut::choose(const CutOptions& options, bool reserve_sums) {
  const int64_t out_quads = conv_.geometry.out_quads();
  const auto in_units = static_cast<uint64_t>(in_slabs() * conv_.geometry.in[0] * plane_in());
  const uint64_t out_units = static_cast<uint64_t>(out_quads - 1) * conv_.out->slab_units +
                             static_cast<uint64_t>((conv_.plane_end - conv_.plane_begin) * plane_out());
  in_whole_ = fits_window(*conv_.in, in_first(0, 0), in_units, limits());
  out_whole_ = fits_window(*conv_.out, out_first(0, conv_.plane_begin), out_units, limits());
  const int64_t bindings = static_cast<int64_t>(limits().max_storage_buffers_per_shader_stage) - 1;  // the weights take one
  const int64_t wanted = std::min(out_whole_ ? options.whole_quads : options.split_quads, out_quads);
  const int64_t inputs = std::min(in_slabs(), options.most_input_quads);
  out_per_group_ = 0;
  for (const bool stats : {true, false}) {
    if (stats && !options.stats) continue;
    stats_fit_ = stats;
    const int64_t free = bindings - (stats ? 1 : 0) - (reserve_sums ? 1 : 0);
    const int64_t least_out = out_whole_ ? 1 : std::min(options.least_split_quads, wanted);
    if (in_whole_ || inputs + least_out <= free) {
      in_per_pass_ = inputs;
      out_per_group_ = out_whole_ ? wanted : std::min(wanted, free - (in_whole_ ? 1 : inputs));
    } else {
      // Sums over several dispatches; those of a half-precision result need the binding of their scratch.
      const int64_t scratch = conv_.out->dtype == DType::F16 && !reserve_sums ? 1 : 0;
      const int64_t room = std::max<int64_t>(1, free - scratch - least_out);
      in_per_pass_ = ceil_div(inputs, ceil_div(inputs, room));
      out_per_group_ = out_whole_ ? wanted : std::min(wanted, free - scratch - in_per_pass_);
    }
    if (in_per_pass_ < in_slabs() && conv_.out->dtype == DType::F16 && !out_whole_ && !reserve_sums)
      out_per_group_ = std::min(out_per_group_, free - (in_whole_ ? 1 : in_per_pass_) - 1);
    if (out_per_group_ >= 1) break;
  }
  if (out_per_group_ < 1)
    fail(ErrorCode::OverLimits, conv_.label, "a convolution needs more storage buffers a stage than the ",
         limits().max_storage_buffers_per_shader_stage, " the device allows");
  out_groups_.clear();
  const bool tail = options.separate_tail && conv_.geometry.out_channels % (4 * options.split_quads) != 0;
  const int64_t together = tail ? (out_quads - 1) / options.split_quads * options.split_quads : out_quads;
  for (int64_t quad = 0; quad < out_quads;) {
    const int64_t end = std::min(quad + out_per_group_, quad < together ? together : out_quads);
    out_groups_.push_back({quad, end});
    quad = end;
  }
}

PlaneRange ConvCut::needs(const PlaneRange& planes, const PlaneRange& taps) const {
  const ConvGeometry& g = conv_.geometry;
  if (taps.empty()) return {0, 0};
  const int64_t lo = planes.begin * g.stride[0] + taps.begin * g.dilation[0] - g.pad[0];
  const int64_t hi = (planes.end - 1) * g.stride[0] + (taps.end - 1) * g.dilation[0] - g.pad[0] + 1;
  return {std::clamp<int64_t>(lo, 0, g.in[0]), std::clamp<int64_t>(hi, 0, g.in[0])};
}

bool ConvCut::input_fits(const PlaneRange& planes) const {
  if (in_whole_ || planes.empty()) return true;
  for (int64_t slab = 0; slab < in_slabs(); ++slab)
    if (!fits_window(*conv_.in, in_first(slab, planes.begin), static_cast<uint64_t>(planes.size() * plane_in()), limits()))
      return false;
  return true;
}

bool ConvCut::output_fits(const PlaneRange& planes) const {
  if (out_whole_) return true;
  for (int64_t quad = 0; quad < conv_.geometry.out_quads(); ++quad)
    if (!fits_window(*conv_.out, out_first(quad, planes.begin), static_cast<uint64_t>(planes.size() * plane_out()), limits()))
      return false;
  return true;
}

bool ConvCut::sums_fit(const PlaneRange& planes) const {
  const uint64_t bytes = static_cast<uint64_t>(planes.size() * plane_out() * out_per_group_) * kVec4Bytes;
  return conv_.out->dtype != DType::F16 ||
         bytes <= std::min(limits().max_storage_buffer_binding_size, limits().max_buffer_size);
}

bool ConvCut::fits_at_once(const PlaneRange& planes) const {
  if (in_per_pass_ < in_slabs() && !sums_fit(planes)) return false;
  return output_fits(planes) && input_fits(needs(planes, {0, conv_.geometry.kernel[0]}));
}

bool ConvCut::fits_by_taps(const PlaneRange& planes) const {
  if (!output_fits(planes) || !sums_fit(planes)) return false;
  for (int64_t t = 0; t < conv_.geometry.kernel[0]; ++t)
    if (!input_fits(needs(planes, {t, t + 1}))) return false;
  return true;
}

// The longest range of planes from `begin` on that fits; empty where none does.
template <class Fits>
static PlaneRange longest(int64_t begin, int64_t end, Fits fits) {
  if (!fits(PlaneRange{begin, begin + 1})) return {begin, begin};
  int64_t good = begin + 1;
  int64_t bad = end + 1;
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (fits(PlaneRange{begin, middle}) ? good : bad) = middle;
  }
  return {begin, good};
}

void ConvCut::cut_planes() {
  ranges_.clear();
  for (int64_t at = conv_.plane_begin; at < conv_.plane_end;) {
    const PlaneRange at_once = longest(at, conv_.plane_end, [this](const PlaneRange& r) { return fits_at_once(r); });
    const PlaneRange by_taps = longest(at, conv_.plane_end, [this](const PlaneRange& r) { return fits_by_taps(r); });
    // All taps at once unless a halo leaves windows less than half as long.
    const PlaneRange range = 2 * at_once.size() >= by_taps.size() ? at_once : by_taps;
    if (range.empty())
      fail(ErrorCode::OverLimits, conv_.label, "one plane of the volume does not fit a binding of ",
           limits().max_storage_buffer_binding_size, " bytes: make the last two axes smaller");
    ranges_.push_back(range);
    at = range.end;
  }
}

std::vector<ConvPass> ConvCut::passes(const PlaneRange& range) const {
  std::vector<ConvPass> result;
  const int64_t taps = conv_.geometry.kernel[0];
  const int64_t step = fits_at_once(range) ? taps : 1;
  for (int64_t tap = 0; tap < taps; tap += step)
    for (int64_t quad = 0; quad < in_slabs(); quad += in_per_pass_)
      if (!needs(range, {tap, tap + step}).empty())
        result.push_back({{tap, tap + step}, {quad, std::min(quad + in_per_pass_, in_slabs())}});
  // Nothing but padding: the result is the bias.
  if (result.empty()) result.push_back({{0, 0}, {0, std::min(in_per_pass_, in_slabs())}});
  result.front().first = true;
  result.back().last = true;
  return result;
}

Storage ConvCut::make_sums(const PlaneRange& range, const PlaneRange& quads, size_t passes) {
  if (passes < 2 || conv_.out->dtype != DType::F16) return {};
  const Shape shape = {1, quads.size() * 4, range.size(), conv_.geometry.out[1], conv_.geometry.out[2]};
  return lowering_.builder().add_storage({DType::F32, shape, Layout::Packed}, conv_.label + ".sums");
}

void ConvCut::bind_inputs(const ConvPass& pass, const PlaneRange& planes, ConvOperands& to) const {
  DispatchSpec& d = to.dispatch;
  const int64_t inputs = in_whole_ ? 1 : pass.quads.size();
  for (int64_t b = 0; b < inputs; ++b) {
    const int64_t slab = pass.quads.begin + b;
    const uint64_t from = in_whole_ ? in_first(0, 0) : in_first(slab, std::min(planes.begin, conv_.geometry.in[0] - 1));
    const int64_t count = in_whole_ ? in_slabs() * conv_.geometry.in[0] : std::max<int64_t>(1, planes.size());
    const Window w = window(*conv_.in, from, static_cast<uint64_t>(count * plane_in()), limits());
    d.params.add(cat("in", b, "_skip"), w.skip + (in_whole_ ? in_first(slab, planes.begin) - from : 0));
    d.reads.push_back(w.range);
    to.bindings += declare_binding(d.reads.size(), cat("in", b), array_type(*conv_.in), false);
  }
  d.params.add("in_stride", conv_.in->slab_units);
  d.params.add("in_planes", static_cast<uint64_t>(std::max<int64_t>(0, planes.size())));
  d.bytes += static_cast<double>(std::max<int64_t>(0, planes.size()) * plane_in() * pass.quads.size()) *
             static_cast<double>(conv_.in->unit_bytes());
}

void ConvCut::bind_weights(const BufferRange& weights, ConvOperands& to) const {
  to.dispatch.reads.push_back(weights);
  to.bindings += declare_binding(to.dispatch.reads.size(), "weights", "vec4<f32>", false);
}

void ConvCut::bind_outputs(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass, const Storage& sums,
                           ConvOperands& to) const {
  DispatchSpec& d = to.dispatch;
  const auto voxels = static_cast<uint64_t>(range.size() * plane_out());
  const bool scratch = sums.units > 0;
  const auto declare = [&](const Window& w, const std::string& name, const std::string& type) {
    d.writes.push_back(w.range);
    to.bindings += declare_binding(d.reads.size() + d.writes.size(), name, type, true);
  };
  std::vector<std::string> targets(static_cast<size_t>(quads.size()));  // where each quad of the result goes
  for (int64_t k = 0; k < quads.size() && (pass.last || !scratch); ++k) {
    const uint64_t first = out_first(quads.begin + k, range.begin);
    if (!out_whole_ || k == 0) {
      const uint64_t span = out_whole_ ? static_cast<uint64_t>(quads.size() - 1) * conv_.out->slab_units + voxels : voxels;
      const Window w = window(*conv_.out, first, span, limits());
      d.params.add(cat("out", k, "_skip"), w.skip);
      declare(w, cat("out", k), array_type(*conv_.out));
    }
    targets[k] = out_whole_ ? cat("out0[P.out0_skip + quad * ", conv_.out->slab_units, "u + j]") : cat("out", k, "[P.out", k, "_skip + j]");
  }
  if (scratch) declare(window(sums, 0, sums.units, limits()), "sums_so_far", "vec4<f32>");
  const std::string sum = cat("sums_so_far[quad * ", voxels, "u + j]");
  const bool mask = pass.last && conv_.geometry.out_channels % 4 != 0 && !conv_.keeps_zero && quads.end == conv_.geometry.out_quads();
  for (int64_t k = 0; k < quads.size(); ++k) {
    const std::string& place = scratch ? sum : targets[k];
    if (!pass.first) to.functions += cat("fn resume", k, "(quad: u32, j: u32) -> vec4<f32> {\n  return ", place, ";\n}\n");
    if (!pass.last) {
      to.functions += cat("fn leave", k, "(quad: u32, j: u32, y: vec4<f32>) {\n  ", place, " = y;\n}\n");
      continue;
    }
    to.functions += cat("fn store", k, "(quad: u32, j: u32, value: vec4<f32>) {\n  var y = value;\n");
    // Lanes beyond the last channel stay zero.
    if (mask)
      to.functions += cat("  if (quad == ", quads.size() - 1, "u) {\n    y = select(vec4<f32>(0.0), y, ",
                          lane_mask(conv_.geometry.out_channels), ");\n  }\n");
    to.functions += cat("  ", targets[k], " = ", pack_unit(*conv_.out, "y"), ";\n}\n");
  }
  d.bytes += static_cast<double>(voxels) * static_cast<double>(quads.size()) * static_cast<double>(conv_.out->unit_bytes());
}

void ConvCut::bind_stats(const StatsTarget& target, const PlaneRange& quads, uint64_t part, ConvOperands& to) const {
  DispatchSpec& d = to.dispatch;
  d.writes.push_back({target.buffer, 0, target.bytes});
  to.bindings += declare_binding(d.reads.size() + d.writes.size(), "stats", "vec4<f32>", true);
  d.params.add("stats", (static_cast<uint64_t>(quads.begin) * target.parts + part) * 3);
  d.params.add("parts", target.parts);
}

int64_t ConvCut::input_tail() const {
  return conv_.in->lanes == 1 ? 1 : (conv_.geometry.in_channels - 1) % 4 + 1;
}

std::string ConvCut::sum_types(const PlaneRange& quads) const {
  static const char* const kTypes[] = {"f32", "vec2<f32>", "vec3<f32>", "vec4<f32>"};
  static const char* const kLanes[] = {".x", ".xy", ".xyz", ""};
  static const char* const kGrown[] = {"vec4<f32>(a, 0.0, 0.0, 0.0)", "vec4<f32>(a, 0.0, 0.0)", "vec4<f32>(a, 0.0)", "a"};
  std::string text;
  for (int64_t k = 0; k < quads.size(); ++k) {
    const int64_t channels = std::min<int64_t>(4, conv_.geometry.out_channels - (quads.begin + k) * 4);
    const size_t type = static_cast<size_t>(channels - 1);
    text += cat("alias Acc", k, " = ", kTypes[type], ";\nfn cut", k, "(w: vec4<f32>) -> Acc", k, " {\n  return w", kLanes[type],
                ";\n}\nfn grow", k, "(a: Acc", k, ") -> vec4<f32> {\n  return ", kGrown[type], ";\n}\n");
  }
  return text;
}

double ConvCut::flops(const PlaneRange& quads, const PlaneRange& range, const ConvPass& pass) const {
  const ConvGeometry& g = conv_.geometry;
  const int64_t in = conv_.in->lanes == 1 ? 1 : std::min(pass.quads.end * 4, g.in_channels) - pass.quads.begin * 4;
  const int64_t out = std::min(quads.end * 4, g.out_channels) - quads.begin * 4;
  return 2.0 * static_cast<double>(range.size() * plane_out()) * static_cast<double>(pass.taps.size() * g.plane_taps()) *
         static_cast<double>(in * out);
}

}  // namespace gyrus
