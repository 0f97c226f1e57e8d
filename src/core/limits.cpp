#include "core/limits.h"

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
  Limits both = a;
  visit_limits_of(
      [](const char* name, auto& least, auto other) { least = asks_more(name, least, other) ? other : least; }, both,
      b);
  return both;
}

}  // namespace gyrus
