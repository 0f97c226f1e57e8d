#include "plan/planner.h"

#include <algorithm>

#include "core/error.h"
#include "core/limits.h"
#include "graph/op.h"
#include "plan/lowerings.h"
#include "plan/ports.h"

namespace gyrus {
namespace {

// The largest alignment that offsets have whose bits are joined here; the specification's where all are 0.
uint32_t alignment_of(uint64_t offsets) {
  const uint64_t lowest = offsets & (~offsets + 1);
  return offsets == 0 ? default_limits().min_storage_buffer_offset_alignment
                      : static_cast<uint32_t>(std::min(lowest, uint64_t{1} << 31));
}

// The least limits under which the plan is valid.
Limits needs_of(const Plan& plan) {
  Limits needs;
  needs.max_buffer_size = needs.max_storage_buffer_binding_size = needs.max_uniform_buffer_binding_size = 0;
  needs.max_storage_buffers_per_shader_stage = needs.max_compute_workgroups_per_dimension = 0;
  needs.max_compute_invocations_per_workgroup = needs.max_compute_workgroup_size_x = 0;
  needs.max_compute_workgroup_size_y = needs.max_compute_workgroup_size_z = 0;
  needs.max_compute_workgroup_storage_size = 0;
  for (const PlanBuffer& buffer : plan.buffers) needs.max_buffer_size = std::max(needs.max_buffer_size, buffer.size);
  for (const PlanKernel& kernel : plan.kernels) {
    const auto storage = std::count_if(kernel.bindings.begin(), kernel.bindings.end(),
                                       [](BindingKind kind) { return kind != BindingKind::Uniform; });
    needs.max_storage_buffers_per_shader_stage =
        std::max(needs.max_storage_buffers_per_shader_stage, static_cast<uint32_t>(storage));
    needs.max_compute_invocations_per_workgroup =
        std::max(needs.max_compute_invocations_per_workgroup, kernel.workgroup_size[0]);
    needs.max_compute_workgroup_size_x = std::max(needs.max_compute_workgroup_size_x, kernel.workgroup_size[0]);
    needs.max_compute_workgroup_size_y = std::max(needs.max_compute_workgroup_size_y, kernel.workgroup_size[1]);
    needs.max_compute_workgroup_size_z = std::max(needs.max_compute_workgroup_size_z, kernel.workgroup_size[2]);
    needs.max_compute_workgroup_storage_size =
        std::max(needs.max_compute_workgroup_storage_size, kernel.workgroup_bytes);
  }
  uint64_t storage_offsets = 0, uniform_offsets = 0;  // all of them together: their lowest bit is the alignment
  for (const Step& step : plan.steps) {
    const auto* dispatch = std::get_if<Dispatch>(&step);
    if (!dispatch) continue;
    for (uint32_t count : dispatch->groups)
      needs.max_compute_workgroups_per_dimension = std::max(needs.max_compute_workgroups_per_dimension, count);
    for (size_t b = 0; b < dispatch->bindings.size(); ++b) {
      const bool uniform = plan.kernels[dispatch->kernel].bindings[b] == BindingKind::Uniform;
      uint64_t& most = uniform ? needs.max_uniform_buffer_binding_size : needs.max_storage_buffer_binding_size;
      most = std::max(most, dispatch->bindings[b].size);
      (uniform ? uniform_offsets : storage_offsets) |= dispatch->bindings[b].offset;
    }
  }
  needs.min_storage_buffer_offset_alignment = alignment_of(storage_offsets);
  needs.min_uniform_buffer_offset_alignment = alignment_of(uniform_offsets);
  return needs;
}

}  // namespace

PlanOptions software_options() {
  PlanOptions options;
  options.conv = {64, 8, 2, false, false, false};
  options.scans_in_parts = false;
  return options;
}

Graph planned_graph(const Graph& graph, const Target& target, const PlanOptions& options) {
  const bool halves = std::any_of(target.matrices.begin(), target.matrices.end(),
                                  [](const MatrixShape& s) { return s.input == DType::F16; });
  if (options.matrix == MatrixUse::On && !(target.features.subgroup_matrix && halves))
    fail(ErrorCode::Unsupported, "matrix", "the target has no matrix units; plan without them, or for another device");
  return arrange_weights(fit(graph, target, options), target, options);
}

Plan make_plan(const Graph& graph, const Target& target, const PlanOptions& options, PlanTrace* trace) {
  return lower_graph(planned_graph(graph, target, options), target, options, trace);
}

Plan lower_graph(const Graph& graph, const Target& target, const PlanOptions& options, PlanTrace* trace) {
  if (trace) *trace = {graph, {}, {}};
  Lowering lowering(graph, target, options);
  Ports ports(lowering);
  ports.lay_sources();
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    lowering.set_position(n);
    const size_t begin = lowering.builder().step_count();
    lowering_of(graph.nodes()[n]).lower(lowering, graph.nodes()[n]);
    if (trace) trace->nodes.push_back({begin, lowering.builder().step_count()});
  }
  ports.lay_results();
  Plan plan = lowering.builder().finish(options.share_memory, trace ? &trace->memory : nullptr);
  ports.finish(plan);
  plan.precision = plan.features.subgroup_matrix ? "f16" : "f32";
  for (const Node& node : graph.nodes())
    for (ValueId id : node.outputs)
      if (graph.type(id).layout == Layout::Packed && graph.type(id).dtype == DType::F16) plan.precision = "f16";
  plan.needs = needs_of(plan);
  return plan;
}

}  // namespace gyrus
