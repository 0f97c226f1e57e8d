#include "plan/conv_cut.h"

#include <algorithm>

#include "core/error.h"

namespace gyrus {

ConvCut::ConvCut(Lowering& lowering, const PackedConv& conv, const CutOptions& options)
    : lowering_(lowering), conv_(conv) {
  choose(options, false);
  cut_planes();
  // Only the cut shows whether halves are summed over several dispatches, in a scratch that takes a binding.
  const auto summed = [this](const Interval& r) { return passes(r).size() > 1; };
  if (conv_.out->dtype != DType::F16 || std::none_of(ranges_.begin(), ranges_.end(), summed)) return;
  choose(options, true);
  cut_planes();
}

UnitRange ConvCut::in_range(const Interval& planes, const Interval& quads) const {
  const auto plane = static_cast<uint64_t>(plane_in());
  const auto stride = static_cast<uint64_t>(in_stride());
  const auto first = static_cast<uint64_t>(conv_.image * conv_.geometry.in[0] + planes.begin);
  return {first * stride + static_cast<uint64_t>(quads.begin) * plane,
          static_cast<uint64_t>(planes.size() - 1) * stride + static_cast<uint64_t>(quads.size()) * plane};
}

UnitRange ConvCut::out_range(const Interval& planes, const Interval& quads) const {
  const int64_t shift = conv_.out_image * conv_.geometry.out[0] - conv_.plane_origin;
  return packed_range(*conv_.out, {planes.begin + shift, planes.end + shift}, quads);
}

bool ConvCut::fits(const Storage& storage, const UnitRange& range) const {
  return fits_window(storage, range.first, range.count, limits());
}

// The most of `wanted` quads that fit wherever they are needed; at least one, which the cut of planes then refuses.
template <class Fits>
static int64_t most_quads(int64_t wanted, int64_t all, Fits fits) {
  for (int64_t each = wanted; each > 1; each = ceil_div(each, 2)) {
    bool good = true;
    for (int64_t quad = 0; good && quad < all; quad += each) good = fits(Interval{quad, std::min(quad + each, all)});
    if (good) return each;
  }
  return 1;
}

std::vector<Interval> output_groups(const ConvSite& site, const CutOptions& options) {
  const int64_t out_quads = site.geometry.out_quads();
  const auto slabs = static_cast<int64_t>(site.out.slabs());
  // The same for every plane of every image, since the weights are arranged once.
  const int64_t each = most_quads(std::min(out_quads, options.output_quads), out_quads, [&](const Interval& quads) {
    for (int64_t slab = 0; slab < slabs; ++slab) {
      const UnitRange units = packed_range(site.out, {slab, slab + 1}, quads);
      if (!fits_window(site.out, units.first, units.count, site.target.limits)) return false;
    }
    return true;
  });
  std::vector<Interval> groups;
  const int64_t unit = options.tail_unit;
  const int64_t together = unit ? (out_quads - 1) / unit * unit : out_quads;
  for (int64_t quad = 0; quad < out_quads;) {
    const int64_t end = std::min(quad + each, quad < together ? together : out_quads);
    groups.push_back({quad, end});
    quad = end;
  }
  return groups;
}

void ConvCut::choose(const CutOptions& options, bool reserve_sums) {
  const Interval in_plane{0, 1};
  in_per_pass_ = most_quads(std::min(in_quads(), options.input_quads), in_quads(),
                            [&](const Interval& quads) { return fits(*conv_.in, in_range(in_plane, quads)); });
  // Weights, the result and perhaps sums take a binding each.
  const int64_t free = static_cast<int64_t>(limits().max_storage_buffers_per_shader_stage) - (reserve_sums ? 3 : 2);
  stats_fit_ = options.stats && free >= 2;
  inputs_ = free - (stats_fit_ ? 1 : 0);
  // The finite check takes a binding too.
  if (lowering_.options().check_finite) --inputs_;
  if (inputs_ < 1)
    fail(ErrorCode::OverLimits, conv_.label, "a convolution needs more storage buffers a stage than the ",
         limits().max_storage_buffers_per_shader_stage, " the device allows");
  out_groups_ = output_groups(conv_site(lowering_.target(), lowering_.options(), conv_), options);
}

Interval ConvCut::needs(const Interval& planes, const Interval& taps) const {
  const ConvGeometry& g = conv_.geometry;
  if (taps.empty()) return {0, 0};
  const int64_t lo = planes.begin * g.stride[0] + taps.begin * g.dilation[0] - g.pad[0];
  const int64_t hi = (planes.end - 1) * g.stride[0] + (taps.end - 1) * g.dilation[0] - g.pad[0] + 1;
  return {std::clamp<int64_t>(lo, 0, g.in[0]), std::clamp<int64_t>(hi, 0, g.in[0])};
}

// `summed`: over several dispatches, halves in a scratch.
bool ConvCut::output_fits(const Interval& planes, bool summed) const {
  for (const Interval& quads : out_groups_) {
    if (!fits(*conv_.out, out_range(planes, quads))) return false;
    const uint64_t sums = static_cast<uint64_t>(planes.size() * plane_out() * quads.size()) * kVec4Bytes;
    const uint64_t most = std::min(limits().max_storage_buffer_binding_size, limits().max_buffer_size);
    if (summed && conv_.out->dtype == DType::F16 && sums > most) return false;
  }
  return true;
}

bool ConvCut::fits_at_once(const Interval& planes) const {
  const Interval read = needs(planes, {0, conv_.geometry.kernel[0]});
  if (!output_fits(planes, in_per_pass_ < in_quads())) return false;
  for (int64_t quad = 0; !read.empty() && quad < in_quads(); quad += in_per_pass_)
    if (!fits(*conv_.in, in_range(read, {quad, std::min(quad + in_per_pass_, in_quads())}))) return false;
  return true;
}

bool ConvCut::tap_windows(const Interval& planes, std::vector<TapWindow>& windows) const {
  windows.clear();
  for (int64_t tap = 0; tap < conv_.geometry.kernel[0]; ++tap) {
    const Interval read = needs(planes, {tap, tap + 1});
    for (int64_t at = read.begin; at < read.end;) {
      // Up to the end of the buffer that holds the plane.
      const Chunk& chunk = chunk_of(*conv_.in, in_range({at, at + 1}, {0, 1}).first);
      const auto image = static_cast<uint64_t>(conv_.image * conv_.geometry.in[0]);
      const auto buffer_end =
          static_cast<int64_t>((chunk.first + chunk.count) / static_cast<uint64_t>(in_stride()) - image);
      const Interval piece{at, std::clamp(buffer_end, at + 1, read.end)};
      for (int64_t quad = 0; quad < in_quads(); quad += in_per_pass_)
        if (!fits(*conv_.in, in_range(piece, {quad, std::min(quad + in_per_pass_, in_quads())}))) return false;
      windows.push_back({tap, piece});
      at = piece.end;
    }
  }
  return true;
}

bool ConvCut::fits_by_taps(const Interval& planes) const {
  std::vector<TapWindow> windows;
  const bool enough = inputs_ >= conv_.geometry.kernel[0];  // for a window each
  if (!output_fits(planes, in_per_pass_ < in_quads() || !enough) || !tap_windows(planes, windows)) return false;
  return !enough || static_cast<int64_t>(windows.size()) <= inputs_;
}

// The longest range of planes from `begin` on that fits; empty where none does.
template <class Fits>
static Interval longest(int64_t begin, int64_t end, Fits fits) {
  if (!fits(Interval{begin, begin + 1})) return {begin, begin};
  int64_t good = begin + 1;
  int64_t bad = end + 1;
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (fits(Interval{begin, middle}) ? good : bad) = middle;
  }
  return {begin, good};
}

void ConvCut::cut_planes() {
  ranges_.clear();
  for (int64_t at = conv_.plane_begin; at < conv_.plane_end;) {
    const Interval at_once = longest(at, conv_.plane_end, [this](const Interval& r) { return fits_at_once(r); });
    const Interval by_taps = longest(at, conv_.plane_end, [this](const Interval& r) { return fits_by_taps(r); });
    // One window for all taps unless its halo costs many planes: more where several dispatches would have to be summed.
    const bool summed = inputs_ < conv_.geometry.kernel[0];
    const bool together =
        (summed ? 2 : 1.25) * static_cast<double>(at_once.size()) >= static_cast<double>(by_taps.size());
    const Interval range = together ? at_once : by_taps;
    if (range.empty())
      fail(ErrorCode::OverLimits, conv_.label, "one plane of the volume does not fit a binding of ",
           limits().max_storage_buffer_binding_size, " bytes: make the last two axes smaller");
    ranges_.push_back(range);
    at = range.end;
  }
}

std::vector<ConvPass> ConvCut::passes(const Interval& range) const {
  std::vector<ConvPass> result;
  const Interval taps{0, conv_.geometry.kernel[0]};
  const auto add = [&](const Interval& some, const std::vector<TapWindow>& windows) {
    for (int64_t quad = 0; quad < in_quads(); quad += in_per_pass_)
      result.push_back({some, {quad, std::min(quad + in_per_pass_, in_quads())}, windows});
  };
  std::vector<TapWindow> windows;
  if (fits_at_once(range)) {
    if (!needs(range, taps).empty()) add(taps, {});
  } else if (tap_windows(range, windows)) {
    for (size_t i = 0; i < windows.size(); i += static_cast<size_t>(inputs_)) {
      const size_t end = std::min(windows.size(), i + static_cast<size_t>(inputs_));
      add({windows[i].tap, windows[end - 1].tap + 1}, {windows.begin() + i, windows.begin() + end});
    }
  }
  // Nothing but padding: the result is the bias.
  if (result.empty()) result.push_back({{0, 0}, {0, in_per_pass_}});
  result.front().first = true;
  result.back().last = true;
  return result;
}

bool ConvCut::begin_stats(StatsTarget* stats, uint64_t parts) {
  if (!stats || !stats_fit_) return false;
  stats->parts = parts;
  stats->bytes = parts * static_cast<uint64_t>(conv_.geometry.out_quads()) * 3 * kVec4Bytes;
  stats->buffer = lowering_.builder().add_buffer(conv_.label + ".stats", stats->bytes);
  return true;
}

Storage ConvCut::make_sums(const Interval& range, const Interval& quads, size_t passes) {
  if (passes < 2 || conv_.out->dtype != DType::F16) return {};
  const Shape shape = {1, quads.size() * 4, range.size(), conv_.geometry.out[1], conv_.geometry.out[2]};
  return lowering_.builder().add_storage({DType::F32, shape, Layout::Packed}, conv_.label + ".sums");
}

int64_t ConvCut::bind_inputs(const ConvPart& part, Kernel& k) const {
  const ConvPass& pass = part.pass;
  const int64_t inputs = pass.taps_apart() ? static_cast<int64_t>(pass.windows.size()) : 1;
  for (int64_t b = 0; b < inputs; ++b) {
    const TapWindow* tap = pass.taps_apart() ? &pass.windows[static_cast<size_t>(b)] : nullptr;
    const Interval read = tap ? tap->planes : needs(part.range, pass.taps);
    if (tap) {
      k.param(cat("in", b, "_tap"), tap->tap).param(cat("in", b, "_begin"), read.begin);
      k.param(cat("in", b, "_planes"), read.size());
    }
    // Taps that lie in the padding alone are never read; any plane will do for them.
    const UnitRange units = in_range(read.empty() ? Interval{0, 1} : read, pass.quads);
    const Window w = window(*conv_.in, units.first, units.count, limits());
    // Wrapping: a plane of the image times the stride plus this is an index of the binding.
    const int64_t image = conv_.image * conv_.geometry.in[0] * in_stride();
    const int64_t origin = static_cast<int64_t>(units.first - w.skip) - image - pass.quads.begin * plane_in();
    k.read(cat("in", b), w.range, array_type(*conv_.in)).param(cat("in", b, "_at"), -origin);
  }
  return inputs;
}

void ConvCut::bind_weights(const ConvPart& part, Kernel& k) const { k.read("weights", *conv_.weights[part.group]); }

std::string ConvCut::bind_output(const ConvPart& part, Kernel& k) const {
  const ConvPass& pass = part.pass;
  const bool scratch = part.sums.units > 0;
  const std::string in_plane = cat("quad * ", plane_out(), "u + j]");
  const std::string result = cat("result[P.out_skip + plane * ", conv_.out->slab_units, "u + ", in_plane);
  const std::string sum = cat("sums_so_far[plane * ", part.quads.size() * plane_out(), "u + ", in_plane);
  if (pass.last || !scratch) {
    const UnitRange units = out_range(part.range, part.quads);
    const Window w = window(*conv_.out, units.first, units.count, limits());
    k.write("result", w.range, array_type(*conv_.out)).param("out_skip", w.skip);
  }
  if (scratch) k.write("sums_so_far", part.sums);
  if (pass.last) k.checks_stored();
  const std::string& so_far = scratch ? sum : result;
  std::string functions;
  if (!pass.first)
    functions += cat("fn resume(quad: u32, plane: u32, j: u32) -> vec4<f32> {\n  return ", so_far, ";\n}\n");
  if (!pass.last)
    return functions + cat("fn leave(quad: u32, plane: u32, j: u32, y: vec4<f32>) {\n  ", so_far, " = y;\n}\n");
  functions += "fn store(quad: u32, plane: u32, j: u32, value: vec4<f32>) {\n  var y = value;\n";
  // Lanes beyond the last channel stay zero.
  const bool mask =
      conv_.geometry.out_channels % 4 != 0 && !conv_.keeps_zero && part.quads.end == conv_.geometry.out_quads();
  if (mask)
    functions += cat("  if (quad == ", part.quads.size() - 1, "u) {\n    y = select(vec4<f32>(0.0), y, ",
                     lane_mask(conv_.geometry.out_channels), ");\n  }\n");
  return functions + cat("  ", result, " = ", k.stored(*conv_.out, "y"), ";\n}\n");
}

void ConvCut::bind_stats(const StatsTarget& target, const ConvPart& part, Kernel& k) const {
  bind_statistics(k, target);
  k.param("stats", (static_cast<uint64_t>(part.quads.begin) * target.parts + part.first_part) * 3);
}

int64_t ConvCut::input_tail() const { return conv_.in->lanes == 1 ? 1 : (conv_.geometry.in_channels - 1) % 4 + 1; }

std::string ConvCut::sum_types(const Interval& quads) const {
  static const char* const kTypes[] = {"f32", "vec2<f32>", "vec3<f32>", "vec4<f32>"};
  static const char* const kLanes[] = {".x", ".xy", ".xyz", ""};
  static const char* const kGrown[] = {"vec4<f32>(a, 0.0, 0.0, 0.0)", "vec4<f32>(a, 0.0, 0.0)", "vec4<f32>(a, 0.0)",
                                       "a"};
  std::string text;
  for (int64_t k = 0; k < quads.size(); ++k) {
    const int64_t channels = std::min<int64_t>(4, conv_.geometry.out_channels - (quads.begin + k) * 4);
    const size_t type = static_cast<size_t>(channels - 1);
    text += cat("alias Acc", k, " = ", kTypes[type], ";\nfn cut", k, "(w: vec4<f32>) -> Acc", k, " {\n  return w",
                kLanes[type], ";\n}\nfn grow", k, "(a: Acc", k, ") -> vec4<f32> {\n  return ", kGrown[type], ";\n}\n");
  }
  return text;
}

Cost ConvCut::cost(const ConvPart& part) const {
  const ConvGeometry& g = conv_.geometry;
  const ConvPass& pass = part.pass;
  const int64_t in = conv_.in->lanes == 1 ? 1 : std::min(pass.quads.end * 4, g.in_channels) - pass.quads.begin * 4;
  const int64_t out = std::min(part.quads.end * 4, g.out_channels) - part.quads.begin * 4;
  const auto voxels = static_cast<double>(part.range.size() * plane_out());
  const int64_t read = std::max<int64_t>(0, needs(part.range, pass.taps).size()) * plane_in() * pass.quads.size();
  return {2.0 * voxels * static_cast<double>(pass.taps.size() * g.plane_taps()) * static_cast<double>(in * out),
          static_cast<double>(read) * static_cast<double>(conv_.in->unit_bytes()) +
              voxels * static_cast<double>(part.quads.size()) * static_cast<double>(conv_.out->unit_bytes())};
}

}  // namespace gyrus
