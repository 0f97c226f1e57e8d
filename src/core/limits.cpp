#include "core/limits.h"

#include <algorithm>

namespace gyrus {

Limits default_limits() { return Limits{}; }

Limits tiny_limits() {
  Limits l;
  l.max_buffer_size = 2u << 20;
  l.max_storage_buffer_binding_size = 1u << 20;
  l.max_uniform_buffer_binding_size = 16384;
  l.max_storage_buffers_per_shader_stage = 4;
  l.max_compute_workgroups_per_dimension = 32;
  l.max_compute_invocations_per_workgroup = 64;
  l.max_compute_workgroup_size_x = 64;
  l.max_compute_workgroup_size_y = 64;
  l.max_compute_workgroup_size_z = 64;
  l.max_compute_workgroup_storage_size = 4096;
  return l;
}

Limits intersect(const Limits& a, const Limits& b) {
  Limits l;
  l.max_buffer_size = std::min(a.max_buffer_size, b.max_buffer_size);
  l.max_storage_buffer_binding_size = std::min(a.max_storage_buffer_binding_size, b.max_storage_buffer_binding_size);
  l.max_uniform_buffer_binding_size = std::min(a.max_uniform_buffer_binding_size, b.max_uniform_buffer_binding_size);
  l.max_storage_buffers_per_shader_stage =
      std::min(a.max_storage_buffers_per_shader_stage, b.max_storage_buffers_per_shader_stage);
  l.min_storage_buffer_offset_alignment =
      std::max(a.min_storage_buffer_offset_alignment, b.min_storage_buffer_offset_alignment);
  l.min_uniform_buffer_offset_alignment =
      std::max(a.min_uniform_buffer_offset_alignment, b.min_uniform_buffer_offset_alignment);
  l.max_compute_workgroups_per_dimension =
      std::min(a.max_compute_workgroups_per_dimension, b.max_compute_workgroups_per_dimension);
  l.max_compute_invocations_per_workgroup =
      std::min(a.max_compute_invocations_per_workgroup, b.max_compute_invocations_per_workgroup);
  l.max_compute_workgroup_size_x = std::min(a.max_compute_workgroup_size_x, b.max_compute_workgroup_size_x);
  l.max_compute_workgroup_size_y = std::min(a.max_compute_workgroup_size_y, b.max_compute_workgroup_size_y);
  l.max_compute_workgroup_size_z = std::min(a.max_compute_workgroup_size_z, b.max_compute_workgroup_size_z);
  l.max_compute_workgroup_storage_size =
      std::min(a.max_compute_workgroup_storage_size, b.max_compute_workgroup_storage_size);
  return l;
}

}  // namespace gyrus
