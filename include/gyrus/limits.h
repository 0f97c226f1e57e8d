#pragma once
#include <cstdint>

namespace gyrus {

// The WebGPU limits that a plan depends on, named as in the specification. The defaults are the specification's.
struct Limits {
  uint64_t max_buffer_size = 268435456;                  // bytes
  uint64_t max_storage_buffer_binding_size = 134217728;  // bytes
  uint64_t max_uniform_buffer_binding_size = 65536;      // bytes
  uint32_t max_storage_buffers_per_shader_stage = 8;
  uint32_t min_storage_buffer_offset_alignment = 256;  // bytes
  uint32_t min_uniform_buffer_offset_alignment = 256;  // bytes
  uint32_t max_compute_workgroups_per_dimension = 65535;
  uint32_t max_compute_invocations_per_workgroup = 256;
  uint32_t max_compute_workgroup_size_x = 256;
  uint32_t max_compute_workgroup_size_y = 256;
  uint32_t max_compute_workgroup_size_z = 64;
  uint32_t max_compute_workgroup_storage_size = 16384;  // bytes

  bool operator==(const Limits&) const = default;
};

// Optional WebGPU features that a plan may use.
struct Features {
  bool shader_f16 = false;
  bool subgroups = false;
  bool timestamp_query = false;
  bool subgroup_matrix = false;  // an experiment of browsers and Dawn: chromium-experimental-subgroup-matrix

  bool operator==(const Features&) const = default;
};

}  // namespace gyrus
