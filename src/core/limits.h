#pragma once
#include <string>

#include "gyrus/limits.h"

namespace gyrus {

// The limits every WebGPU implementation offers.
Limits default_limits();
// Absurdly small limits, for tests: no real device has them.
Limits tiny_limits();
// The smaller (for alignments: the larger) of each limit.
Limits intersect(const Limits& a, const Limits& b);

// Calls visit(name, members…) for every limit with its name in the WebGPU specification and its member of each of the
// structs, which may be const.
template <class Visit, class... L>
void visit_limits_of(Visit&& visit, L&... limits) {
  visit("maxBufferSize", limits.max_buffer_size...);
  visit("maxStorageBufferBindingSize", limits.max_storage_buffer_binding_size...);
  visit("maxUniformBufferBindingSize", limits.max_uniform_buffer_binding_size...);
  visit("maxStorageBuffersPerShaderStage", limits.max_storage_buffers_per_shader_stage...);
  visit("minStorageBufferOffsetAlignment", limits.min_storage_buffer_offset_alignment...);
  visit("minUniformBufferOffsetAlignment", limits.min_uniform_buffer_offset_alignment...);
  visit("maxComputeWorkgroupsPerDimension", limits.max_compute_workgroups_per_dimension...);
  visit("maxComputeInvocationsPerWorkgroup", limits.max_compute_invocations_per_workgroup...);
  visit("maxComputeWorkgroupSizeX", limits.max_compute_workgroup_size_x...);
  visit("maxComputeWorkgroupSizeY", limits.max_compute_workgroup_size_y...);
  visit("maxComputeWorkgroupSizeZ", limits.max_compute_workgroup_size_z...);
  visit("maxComputeWorkgroupStorageSize", limits.max_compute_workgroup_storage_size...);
}
template <class L, class Visit>
void visit_limits(L& limits, Visit&& visit) {
  visit_limits_of(visit, limits);
}

// Whether `a` asks for more of the limit of that name than `b`: a smaller alignment, else a larger number.
template <class T>
bool asks_more(const char* name, T a, T b) {
  return name[1] == 'i' ? a < b : a > b;  // "min…"
}

}  // namespace gyrus
