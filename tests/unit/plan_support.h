#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "core/limits.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "plan/check.h"
#include "plan/planner.h"

namespace gyrus::test {

// What Dawn offers on a large NVIDIA card.
inline Limits large_limits() {
  Limits l;
  l.max_buffer_size = uint64_t{1} << 40;
  l.max_storage_buffer_binding_size = (uint64_t{4} << 30) - 4;
  l.max_storage_buffers_per_shader_stage = 10;
  l.min_storage_buffer_offset_alignment = 32;
  l.max_compute_invocations_per_workgroup = 1024;
  l.max_compute_workgroup_size_x = 1024;
  l.max_compute_workgroup_size_y = 1024;
  l.max_compute_workgroup_storage_size = 48 << 10;
  return l;
}

// Smaller still than tiny_limits().
inline Limits small_limits() {
  Limits l = tiny_limits();
  l.max_buffer_size = 256 << 10;
  l.max_storage_buffer_binding_size = 128 << 10;
  l.max_compute_workgroups_per_dimension = 7;
  l.max_compute_invocations_per_workgroup = 16;
  l.max_compute_workgroup_size_x = 16;
  l.max_compute_workgroup_storage_size = 1024;
  return l;
}

// Limits that no device has, each by itself possible.
inline Limits random_limits(Rng& rng) {
  Limits l;
  l.max_buffer_size = (uint64_t{1} << rng.integer(11, 22)) + 4 * static_cast<uint64_t>(rng.integer(0, 500));
  l.max_storage_buffer_binding_size = std::min(
      l.max_buffer_size, (uint64_t{1} << rng.integer(10, 21)) + 4 * static_cast<uint64_t>(rng.integer(0, 300)));
  l.max_uniform_buffer_binding_size = uint64_t{1} << rng.integer(8, 16);
  l.max_storage_buffers_per_shader_stage = static_cast<uint32_t>(rng.integer(3, 10));
  l.min_storage_buffer_offset_alignment = 1u << rng.integer(5, 8);
  l.min_uniform_buffer_offset_alignment = 1u << rng.integer(5, 8);
  l.max_compute_workgroups_per_dimension = static_cast<uint32_t>(rng.integer(2, 100));
  l.max_compute_invocations_per_workgroup = static_cast<uint32_t>(rng.integer(1, 300));
  l.max_compute_workgroup_size_x = static_cast<uint32_t>(rng.integer(1, 300));
  l.max_compute_workgroup_storage_size = 16 * static_cast<uint32_t>(rng.integer(8, 1024));
  return l;
}

inline std::string to_text(const Limits& l) {
  return cat("buffer ", l.max_buffer_size, " binding ", l.max_storage_buffer_binding_size, " uniform ",
             l.max_uniform_buffer_binding_size, " buffers ", l.max_storage_buffers_per_shader_stage, " alignment ",
             l.min_storage_buffer_offset_alignment, "/", l.min_uniform_buffer_offset_alignment, " groups ",
             l.max_compute_workgroups_per_dimension, " invocations ", l.max_compute_invocations_per_workgroup, " x ",
             l.max_compute_workgroup_size_x, " memory ", l.max_compute_workgroup_storage_size);
}

// The plan keeps the limits, and what it says it needs is enough for it.
inline void expect_sound(const Plan& plan, const Limits& limits) {
  ASSERT_NO_THROW(check(plan, limits));
  ASSERT_NO_THROW(check(plan, plan.needs));
}

// With any limit that the plan uses one unit tighter (alignments: doubled) it no longer fits.
inline void expect_least(const Plan& plan) {
  uint64_t storage_offsets = 0, uniform_offsets = 0;
  for (const Step& step : plan.steps)
    if (const auto* dispatch = std::get_if<Dispatch>(&step))
      for (size_t b = 0; b < dispatch->bindings.size(); ++b)
        (plan.kernels[dispatch->kernel].bindings[b] == BindingKind::Uniform ? uniform_offsets : storage_offsets) |=
            dispatch->bindings[b].offset;
  Limits tight = plan.needs;
  visit_limits(tight, [&](const std::string& name, auto& limit) {
    const auto needed = limit;
    if (name == "minStorageBufferOffsetAlignment" || name == "minUniformBufferOffsetAlignment") {
      if ((name[3] == 'S' ? storage_offsets : uniform_offsets) == 0) return;
      limit *= 2;
    } else {
      if (needed == 0) return;
      --limit;
    }
    EXPECT_THROW(check(plan, tight), Error) << name << " " << needed;
    limit = needed;
  });
}

inline void expect_round_trip(const Plan& plan) {
  const std::string json = to_json(plan);
  ASSERT_EQ(to_json(parse_plan(json, plan.weights)), json);
}

}  // namespace gyrus::test
