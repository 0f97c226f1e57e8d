#include <algorithm>

#include "core/error.h"
#include "ops/fused.h"
#include "ops/norm.h"
#include "plan/norm_parts.h"

namespace gyrus {
namespace {

constexpr uint64_t kUnitsPerLane = 16;  // that one lane of norm_partials reads

// A workgroup whose stages of `bytes` for each lane fit the workgroup's memory.
uint32_t staged_workgroup(const Lowering& lowering, uint32_t wanted, uint64_t bytes) {
  uint32_t wg = lowering.workgroup(wanted);
  while (wg > 1 && wg * bytes > lowering.limits().max_compute_workgroup_storage_size) wg /= 2;
  return wg;
}

// Rows mean, scale, beta for each quad, from the statistics of the channels.
StoragePtr emit_coefficients(Lowering& lowering, const Node& node, const Shape& shape) {
  const NormAttrs attrs = norm_attrs(node, shape[1]);
  const int64_t quads = ceil_div(shape[1], 4);
  const bool affine = has_operand(node, 2);
  const std::string label = label_of(node);
  StoragePtr rows =
      lowering.make_scratch({DType::F32, {shape[0], quads * 4, 3}, Layout::Packed}, label + ".coefficients");
  Kernel k(lowering, "norm_coefficients", label);
  k.workgroup(64).read("statistics", *lowering.storage(node.inputs[1])).flag("affine", affine);
  if (affine) k.read("gamma", *lowering.storage(node.inputs[2])).read("beta", *lowering.storage(node.inputs[3]));
  k.write("rows", *rows);
  k.param("slabs", shape[0] * quads).param("quads", quads).param("channels", shape[1]);
  k.param("group_channels", shape[1] / attrs.groups).param("eps", static_cast<float>(attrs.eps));
  k.dispatch((static_cast<uint64_t>(shape[0] * quads) + k.workgroup() - 1) / k.workgroup());
  return rows;
}

// Workgroups that read one quad of so many planes.
uint64_t groups_of(const Storage& x, int64_t planes, uint64_t group_units) {
  return (static_cast<uint64_t>(planes) * x.plane_units + group_units - 1) / group_units;
}

// Runs of images, each as long as windows of `x` and of the other values hold and as the parts of x, `part_bytes` for a
// workgroup, fit a binding; an image that does not fit stands alone.
std::vector<Interval> image_runs(const Storage& x, std::initializer_list<const Storage*> others, int64_t images,
                                 uint64_t group_units, uint64_t part_bytes, const Limits& limits) {
  const uint64_t most = std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  const uint64_t quads = x.slab_units / x.plane_units;
  const uint64_t parts = quads * groups_of(x, static_cast<int64_t>(x.slabs()) / images, group_units);
  const auto fits = [&](const Storage& storage, int64_t begin, int64_t end) {
    const uint64_t image = storage.units / static_cast<uint64_t>(images);
    return fits_window(storage, static_cast<uint64_t>(begin) * image, static_cast<uint64_t>(end - begin) * image,
                       limits);
  };
  const auto fit = [&](int64_t begin, int64_t end) {
    return fits(x, begin, end) && static_cast<uint64_t>(end - begin) * parts * part_bytes <= most &&
           std::all_of(others.begin(), others.end(), [&](const Storage* other) { return fits(*other, begin, end); });
  };
  std::vector<Interval> runs;
  for (int64_t begin = 0; begin < images; begin = runs.back().end) {
    int64_t end = begin + 1;
    while (end < images && fit(begin, end + 1)) ++end;
    runs.push_back({begin, end});
  }
  return runs;
}

}  // namespace

StatsTarget emit_norm_partials(Lowering& lowering, const Storage& x, const Interval& slabs, int64_t images,
                               int64_t channels, const std::string& label) {
  const int64_t quads = ceil_div(channels, 4);
  const uint32_t wg = staged_workgroup(lowering, 128, kStatisticsBytes);
  const uint64_t group_units = wg * kUnitsPerLane;
  const std::vector<QuadPlanes> pieces = cut_packed(x, slabs, lowering.limits(), label);
  StatsTarget target;
  for (const QuadPlanes& piece : pieces)
    if (piece.quads.begin == 0) target.parts += groups_of(x, piece.slabs.size() / images, group_units);
  target.bytes = target.parts * static_cast<uint64_t>(images * quads) * 3 * kVec4Bytes;
  target.buffer = lowering.builder().add_buffer(label + ".stats", target.bytes);
  uint64_t part = 0;
  for (const QuadPlanes& piece : pieces) {
    const UnitRange units = packed_range(x, piece.slabs, piece.quads);
    const Window w = window(x, units.first, units.count, lowering.limits());
    const int64_t planes = piece.slabs.size() / images;
    const uint64_t groups = groups_of(x, planes, group_units);
    Kernel k(lowering, "norm_partials", label);
    k.workgroup(wg)
        .read("x", x, w)
        .param("first", units.first)
        .param("stats", (static_cast<uint64_t>(piece.quads.begin) * target.parts + part) * 3);
    k.param("voxels", static_cast<uint64_t>(planes) * x.plane_units).param("quad_groups", groups);
    k.param("quads", piece.quads.size()).param("image_units", static_cast<uint64_t>(planes) * x.slab_units);
    k.param("plane_units", x.plane_units).param("slab_units", x.slab_units);
    k.text("unpack", unpack_unit(x, "raw")).constant("group_units", static_cast<int64_t>(group_units));
    bind_statistics(k, target);
    k.dispatch(groups * static_cast<uint64_t>(images * piece.quads.size()),
               {static_cast<double>(units.count * 16), static_cast<double>(units.count * x.unit_bytes())});
    if (piece.quads.end == quads) part += groups;
  }
  return target;
}

void bind_statistics(Kernel& k, const StatsTarget& target) {
  k.write("stats", {target.buffer, 0, target.bytes}, wgsl::vec4f).param("parts", target.parts);
  k.shared("sums", wgsl::vec4f, k.workgroup()).shared("squares", wgsl::vec4f, k.workgroup());
  k.shared("counts", wgsl::f32, k.workgroup());
}

void emit_norm_finalize(Lowering& lowering, const StatsTarget& target, const Interval& images, int64_t channels,
                        const Storage& out, const std::string& label) {
  const int64_t quads = ceil_div(channels, 4);
  const Window w = window(out, static_cast<uint64_t>(images.begin * channels * 2),
                          static_cast<uint64_t>(images.size() * channels * 2), lowering.limits());
  Kernel k(lowering, "norm_finalize", label);
  k.workgroup(staged_workgroup(lowering, 256, kStatisticsBytes));
  k.read("partials", {target.buffer, 0, target.bytes}, wgsl::vec4f).write("statistics", out, w);
  k.param("first", w.first).param("parts", target.parts).param("channels", channels).param("quads", quads);
  k.shared("means", wgsl::vec4f, k.workgroup()).shared("squares", wgsl::vec4f, k.workgroup());
  k.shared("counts", wgsl::f32, k.workgroup());
  k.dispatch(static_cast<uint64_t>(images.size() * quads), {0, static_cast<double>(target.bytes)});
}

void emit_norm_stats(Lowering& lowering, const Storage& x, int64_t images, int64_t channels, const Storage& out,
                     const std::string& label) {
  const int64_t planes = static_cast<int64_t>(x.slabs()) / images;
  const uint64_t group_units = staged_workgroup(lowering, 128, kStatisticsBytes) * kUnitsPerLane;
  for (const Interval& run : image_runs(x, {&out}, images, group_units, 3 * kVec4Bytes, lowering.limits())) {
    const Interval slabs{run.begin * planes, run.end * planes};
    const StatsTarget target = emit_norm_partials(lowering, x, slabs, run.size(), channels, label);
    emit_norm_finalize(lowering, target, run, channels, out, label);
  }
}

void lower_norm_stats(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.graph().type(node.inputs[0]).shape;
  const StoragePtr x = lowering.storage(node.inputs[0]);
  emit_norm_stats(lowering, *x, shape[0], shape[1], *lowering.make_storage(node.outputs[0], node), label_of(node));
}

namespace {

// Some quads of some slabs that both maps can be read by.
std::vector<QuadPlanes> cut_both(const Storage& x, const Storage& g, const Interval& slabs, const Limits& limits,
                                 const std::string& label) {
  std::vector<QuadPlanes> pieces;
  for (const QuadPlanes& one : cut_packed(x, slabs, limits, label))
    for (const QuadPlanes& other : cut_packed(g, one.slabs, limits, label)) {
      const Interval quads{std::max(one.quads.begin, other.quads.begin), std::min(one.quads.end, other.quads.end)};
      if (!quads.empty()) pieces.push_back({other.slabs, quads});
    }
  return pieces;
}

}  // namespace

void lower_norm_sums(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.graph().type(node.inputs[0]).shape;
  const Storage x = by_planes(*lowering.storage(node.inputs[0])), g = by_planes(*lowering.storage(node.inputs[1]));
  const Storage& statistics = *lowering.storage(node.inputs[2]);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const std::string label = label_of(node);
  const int64_t quads = ceil_div(shape[1], 4);
  const uint32_t wg = staged_workgroup(lowering, 128, 2 * kVec4Bytes);
  const uint64_t group_units = wg * kUnitsPerLane;
  const int64_t planes = static_cast<int64_t>(x.slabs()) / shape[0];
  for (const Interval& run : image_runs(x, {&g, out.get()}, shape[0], group_units, 2 * kVec4Bytes, lowering.limits())) {
    const std::vector<QuadPlanes> pieces =
        cut_both(x, g, {run.begin * planes, run.end * planes}, lowering.limits(), label);
    // Every quad has as many parts as there are groups over all pieces that hold it.
    uint64_t parts = 0;
    for (const QuadPlanes& piece : pieces)
      if (piece.quads.begin == 0) parts += groups_of(x, piece.slabs.size() / run.size(), group_units);
    const uint64_t bytes = parts * static_cast<uint64_t>(run.size() * quads) * 2 * kVec4Bytes;
    const uint32_t buffer = lowering.builder().add_buffer(label + ".sums", bytes);
    std::vector<uint64_t> done(static_cast<size_t>(quads), 0);
    for (const QuadPlanes& piece : pieces) {
      const UnitRange units = packed_range(x, piece.slabs, piece.quads);
      const int64_t image_planes = piece.slabs.size() / run.size();
      const uint64_t groups = groups_of(x, image_planes, group_units);
      const uint64_t part = done[static_cast<size_t>(piece.quads.begin)];
      for (int64_t q = piece.quads.begin; q < piece.quads.end; ++q) done[static_cast<size_t>(q)] += groups;
      Kernel k(lowering, "norm_sums", label);
      k.workgroup(wg);
      k.read("x", x, window(x, units.first, units.count, lowering.limits()));
      k.read("g", g, window(g, units.first, units.count, lowering.limits()));
      k.read("statistics", statistics).write("sums", {buffer, 0, bytes}, wgsl::vec4f);
      k.param("first", units.first).param("first_quad", piece.quads.begin).param("quads", piece.quads.size());
      k.param("image", run.begin).param("images", shape[0]);
      k.param("image_units", static_cast<uint64_t>(image_planes) * x.slab_units);
      k.param("channels", shape[1]).param("parts", parts).param("quad_groups", groups);
      k.param("sums", (static_cast<uint64_t>(piece.quads.begin) * parts + part) * 2);
      k.param("voxels", static_cast<uint64_t>(image_planes) * x.plane_units);
      k.param("plane_units", x.plane_units).param("slab_units", x.slab_units);
      k.text("unpack_x", unpacked_lanes(x)).text("unpack_g", unpacked_lanes(g));
      k.constant("group_units", static_cast<int64_t>(group_units));
      k.shared("firsts", wgsl::vec4f, wg).shared("seconds", wgsl::vec4f, wg);
      k.dispatch(groups * static_cast<uint64_t>(run.size() * piece.quads.size()),
                 {static_cast<double>(units.count * 16),
                  static_cast<double>(units.count * (x.unit_bytes() + g.unit_bytes()))});
    }
    const Window w = window(*out, static_cast<uint64_t>(run.begin * shape[1] * 2),
                            static_cast<uint64_t>(run.size() * shape[1] * 2), lowering.limits());
    Kernel k(lowering, "norm_sums_finish", label);
    k.workgroup(staged_workgroup(lowering, 128, 2 * kVec4Bytes));
    k.read("parts", {buffer, 0, bytes}, wgsl::vec4f).write("output", *out, w);
    k.param("first", w.first).param("parts", parts).param("channels", shape[1]).param("quads", quads);
    k.shared("firsts", wgsl::vec4f, k.workgroup()).shared("seconds", wgsl::vec4f, k.workgroup());
    k.dispatch(static_cast<uint64_t>(run.size() * quads), {0, static_cast<double>(bytes)});
  }
}

void lower_norm_apply(Lowering& lowering, const Node& node) {
  const TensorType& type = lowering.graph().type(node.inputs[0]);
  PackedMapSpec spec;
  spec.label = label_of(node);
  spec.name = "norm_apply";
  for (const Node& step : node.body) spec.name += " " + step.op;
  spec.images = type.shape[0];
  spec.channels = type.shape[1];
  PackedOperand x;
  x.storage = lowering.storage(node.inputs[0]);
  x.name = "x";
  PackedOperand rows;
  rows.storage = emit_coefficients(lowering, node, type.shape);
  rows.name = "row";
  rows.access = PackedOperand::Access::Image;
  rows.rows = 3;
  spec.operands = {x, rows};
  const BodyText body = epilogue(node, "normal", wgsl::vec4f);
  spec.statements = "  let normal = (x - row0) * row1 + row2;\n" + body.statements;
  spec.result = body.result();
  spec.keeps_zero = body_keeps_zero(node);  // the rows of lanes beyond the last channel are zero
  spec.flops_per_element = 3 + static_cast<double>(node.body.size());
  const bool reuse =
      lowering.may_overwrite(node.inputs[0]) && lowering.graph().type(node.outputs[0]).dtype == x.storage->dtype;
  if (reuse) lowering.set_storage(node.outputs[0], x.storage);
  spec.out = reuse ? x.storage : lowering.make_storage(node.outputs[0], node);
  emit_packed_map(lowering, spec);
}

}  // namespace gyrus
