#include <algorithm>

#include "core/error.h"
#include "ops/fused.h"
#include "ops/norm.h"
#include "plan/lower_conv.h"

namespace gyrus {
namespace {

constexpr uint64_t kUnitsPerLane = 16;  // that one lane of norm_partials reads

// A workgroup whose stages of `bytes` for each lane fit the workgroup's memory.
uint32_t staged_workgroup(const Lowering& lowering, uint32_t wanted, uint64_t bytes) {
  uint32_t wg = lowering.workgroup(wanted);
  while (wg > 1 && wg * bytes > lowering.limits().max_compute_workgroup_storage_size) wg /= 2;
  return wg;
}

Window whole_window(Lowering& lowering, ValueId id, const std::string& label) {
  const StoragePtr storage = lowering.storage(id);
  if (!fits_window(*storage, 0, storage->units, lowering.limits()))
    fail(ErrorCode::OverLimits, label, "norm parameters of ", storage->bytes(), " bytes do not fit a binding");
  return window(*storage, 0, storage->units, lowering.limits());
}

// Rows mean, scale, beta for each quad, from the statistics of the channels.
StoragePtr emit_coefficients(Lowering& lowering, const Node& node, const Shape& shape) {
  const NormAttrs attrs = norm_attrs(node, shape[1]);
  const int64_t quads = ceil_div(shape[1], 4);
  const std::string label = label_of(node);
  StoragePtr rows =
      lowering.make_scratch({DType::F32, {shape[0], quads * 4, 3}, Layout::Packed}, label + ".coefficients");
  const Window statistics = whole_window(lowering, node.inputs[1], label);
  DispatchSpec d;
  d.name = "norm_coefficients";
  d.label = label;
  d.workgroup = lowering.workgroup(64);
  d.params = PlanBuilder::begin_params();
  d.params.add("slabs", static_cast<uint64_t>(shape[0] * quads));
  d.params.add("quads", static_cast<uint64_t>(quads));
  d.params.add("channels", static_cast<uint64_t>(shape[1]));
  d.params.add("group_channels", static_cast<uint64_t>(shape[1] / attrs.groups));
  d.params.add_float("eps", static_cast<float>(attrs.eps));
  d.reads = {statistics.range};
  KernelVars vars;
  vars["affine"] = node.inputs.size() > 2 ? "1" : "";
  if (node.inputs.size() > 2) {
    const Window gamma = whole_window(lowering, node.inputs[2], label);
    const Window beta = whole_window(lowering, node.inputs[3], label);
    d.params.add("gamma_skip", gamma.skip);
    d.params.add("beta_skip", beta.skip);
    d.reads.push_back(gamma.range);
    d.reads.push_back(beta.range);
  }
  const Window out = window(*rows, 0, rows->units, lowering.limits());
  d.writes = {out.range};
  vars["params"] = d.params.declaration();
  vars["wg"] = std::to_string(d.workgroup);
  d.wgsl = expand_kernel("norm_coefficients", vars);
  d.groups = (static_cast<uint64_t>(shape[0] * quads) + d.workgroup - 1) / d.workgroup;
  lowering.builder().dispatch(d);
  return rows;
}

}  // namespace

StatsTarget emit_norm_partials(Lowering& lowering, const Storage& x, const PlaneRange& slabs, int64_t channels,
                               const std::string& label) {
  const int64_t quads = ceil_div(channels, 4);
  const uint32_t wg = staged_workgroup(lowering, 128, 2 * kVec4Bytes);
  const uint64_t group_units = wg * kUnitsPerLane;
  const auto groups_of = [&](const PlaneRange& planes) {
    return (static_cast<uint64_t>(planes.size()) * x.plane_units + group_units - 1) / group_units;
  };
  const std::vector<QuadPlanes> pieces = cut_packed(x, slabs, lowering.limits(), label);
  StatsTarget target;
  for (const QuadPlanes& piece : pieces)
    if (piece.quads.begin == 0) target.parts += groups_of(piece.slabs);
  target.bytes = target.parts * static_cast<uint64_t>(quads) * 3 * kVec4Bytes;
  target.buffer = lowering.builder().add_buffer(label + ".stats", target.bytes);
  uint64_t part = 0;
  for (const QuadPlanes& piece : pieces) {
    const UnitRange units = packed_range(x, piece.slabs, piece.quads);
    const Window w = window(x, units.first, units.count, lowering.limits());
    const uint64_t groups = groups_of(piece.slabs);
    DispatchSpec d;
    d.name = "norm_partials";
    d.label = label;
    d.workgroup = wg;
    d.params = PlanBuilder::begin_params();
    d.params.add("voxels", static_cast<uint64_t>(piece.slabs.size()) * x.plane_units);
    d.params.add("quad_groups", groups);
    d.params.add("parts", target.parts);
    d.params.add("in0_skip", w.skip);
    d.params.add("stats", (static_cast<uint64_t>(piece.quads.begin) * target.parts + part) * 3);
    d.reads = {w.range};
    d.writes = {{target.buffer, 0, target.bytes}};
    d.groups = groups * static_cast<uint64_t>(piece.quads.size());
    if (piece.quads.end == quads) part += groups;
    d.bytes = static_cast<double>(units.count * x.unit_bytes());
    d.flops = static_cast<double>(units.count * 16);
    KernelVars vars;
    vars["params"] = d.params.declaration();
    vars["bindings"] = declare_binding(1, "in0", array_type(x), false) + declare_binding(2, "stats", "vec4<f32>", true);
    vars["unpack"] = unpack_unit(x, "raw");
    vars["plane_units"] = std::to_string(x.plane_units);
    vars["slab_units"] = std::to_string(x.slab_units);
    vars["stage"] = std::to_string(2 * wg);
    vars["group_units"] = std::to_string(group_units);
    vars["wg"] = std::to_string(wg);
    d.wgsl = expand_kernel("norm_partials", vars);
    lowering.builder().dispatch(d);
  }
  return target;
}

void emit_norm_finalize(Lowering& lowering, const StatsTarget& target, int64_t image, int64_t channels,
                        const Storage& out, const std::string& label) {
  const int64_t quads = ceil_div(channels, 4);
  DispatchSpec d;
  d.name = "norm_finalize";
  d.label = label;
  d.workgroup = staged_workgroup(lowering, 256, 36);
  d.params = PlanBuilder::begin_params();
  const Window w =
      window(out, static_cast<uint64_t>(image * channels * 2), static_cast<uint64_t>(channels * 2), lowering.limits());
  d.params.add("parts", target.parts);
  d.params.add("quads", static_cast<uint64_t>(quads));
  d.params.add("channels", static_cast<uint64_t>(channels));
  d.params.add("out_skip", w.skip);
  d.reads = {{target.buffer, 0, target.bytes}};
  d.writes = {w.range};
  d.groups = static_cast<uint64_t>(quads);
  d.bytes = static_cast<double>(target.bytes);
  KernelVars vars;
  vars["params"] = d.params.declaration();
  vars["wg"] = std::to_string(d.workgroup);
  d.wgsl = expand_kernel("norm_finalize", vars);
  lowering.builder().dispatch(d);
}

void lower_norm_stats(Lowering& lowering, const Node& node) {
  const TensorType& type = lowering.graph().type(node.inputs[0]);
  const StoragePtr x = lowering.storage(node.inputs[0]);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  for (int64_t image = 0; image < type.shape[0]; ++image) {
    const PlaneRange slabs{image * type.shape[2], (image + 1) * type.shape[2]};
    const StatsTarget target = emit_norm_partials(lowering, *x, slabs, type.shape[1], label_of(node));
    emit_norm_finalize(lowering, target, image, type.shape[1], *out, label_of(node));
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
  const BodyText body = body_wgsl(node, {"normal"}, wgsl::vec4f);
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
