// Memory by lifetimes, workgroups folded into three axes, and what the builder refuses.
#include <cstring>
#include <set>

#include "plan/builder.h"
#include "plan_support.h"

namespace gyrus::test {
namespace {

using testing::ElementsAre;

bool overlap(const MemoryRequest& a, const MemoryRequest& b) { return a.first <= b.last && b.first <= a.last; }

// The most bytes alive at one step: no assignment can take less.
uint64_t least_peak(const std::vector<MemoryRequest>& requests) {
  uint64_t most = 0;
  for (const MemoryRequest& at : requests) {
    uint64_t alive = 0;
    for (const MemoryRequest& r : requests) alive += r.first <= at.first && at.first <= r.last ? r.bytes : 0;
    most = std::max(most, alive);
  }
  return most;
}

TEST(AssignMemory, NothingAliveTogetherSharesASlot) {
  Rng rng(5);
  for (int i = 0; i < 500; ++i) {
    std::vector<MemoryRequest> requests;
    uint64_t sum = 0;
    for (int64_t k = rng.integer(0, 40); k > 0; --k) {
      const int64_t first = rng.integer(-1, 60);
      requests.push_back({static_cast<uint64_t>(rng.integer(1, 1000)) * 4, first, first + rng.integer(0, 20)});
      sum += requests.back().bytes;
    }
    const MemoryAssignment memory = assign_memory(requests);
    ASSERT_EQ(memory.slot.size(), requests.size());
    uint64_t peak = 0;
    for (uint64_t bytes : memory.slot_bytes) peak += bytes;
    EXPECT_LE(peak, sum);
    EXPECT_GE(peak, least_peak(requests));
    for (size_t a = 0; a < requests.size(); ++a) {
      ASSERT_LT(memory.slot[a], memory.slot_bytes.size());
      EXPECT_LE(requests[a].bytes, memory.slot_bytes[memory.slot[a]]);
      for (size_t b = 0; b < a; ++b) {
        if (memory.slot[a] == memory.slot[b]) {
          EXPECT_FALSE(overlap(requests[a], requests[b]));
        }
      }
    }
  }
}

TEST(AssignMemory, AChainTakesTwoSlots) {
  std::vector<MemoryRequest> requests;
  for (int64_t i = 0; i < 30; ++i) requests.push_back({1024, i, i + 1});
  const MemoryAssignment memory = assign_memory(requests);
  EXPECT_THAT(memory.slot_bytes, ElementsAre(1024, 1024));
}

TEST(AssignMemory, SlotsNeverGrow) {
  const MemoryAssignment memory = assign_memory({{8, 0, 1}, {64, 2, 3}, {16, 4, 5}});
  EXPECT_THAT(memory.slot_bytes, ElementsAre(64));
}

TEST(AssignMemory, OfNothingIsNothing) { EXPECT_TRUE(assign_memory({}).slot_bytes.empty()); }

// A builder with one buffer to write, for dispatches that do nothing else.
struct Folding {
  explicit Folding(uint32_t most) {
    limits.max_compute_workgroups_per_dimension = most;
    limits.max_buffer_size = uint64_t{1} << 32;
  }
  Plan plan(uint64_t groups) const {
    PlanBuilder builder(limits);
    DispatchSpec d;
    d.params = {0, 0};
    d.bindings = {{BindingKind::ReadWriteStorage, {builder.add_buffer("out", 256), 0, 256}}};
    d.groups = groups;
    d.flops = 1000;
    builder.dispatch(d);
    return builder.finish();
  }
  Limits limits;
};

uint32_t param(const Plan& plan, const Dispatch& dispatch, size_t word) {
  const BufferRange& range = dispatch.bindings[0];
  uint32_t value = 0;
  std::memcpy(&value, plan.weights.data() + plan.buffers[range.buffer].data_offset + range.offset + word * 4, 4);
  return value;
}

// The numbers that group_index() of group_index.wgsl gives, below the count that kernels compare with.
void expect_every_group_once(const Plan& plan, uint64_t groups, uint32_t most) {
  std::vector<int> seen(groups, 0);
  double flops = 0;
  for (const Step& step : plan.steps) {
    const auto& dispatch = std::get<Dispatch>(step);
    flops += dispatch.flops;
    ASSERT_EQ(param(plan, dispatch, 1), groups);
    const auto [x, y, z] = dispatch.groups;
    ASSERT_LE(std::max({x, y, z}), most);
    for (uint64_t i = 0; i < uint64_t{x} * y * z; ++i) {
      const uint64_t group = param(plan, dispatch, 0) + i;
      if (group < groups) ++seen[group];
    }
  }
  EXPECT_NEAR(flops, 1000, 1e-6);
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; })) << groups << " of " << most;
}

TEST(GroupFolding, CoversEveryGroupOnceBeyondTheCube) {
  for (const uint32_t most : {1u, 2u, 3u, 7u})
    for (uint64_t groups = 1; groups <= 2 * uint64_t{most} * most * most + 5; ++groups)
      expect_every_group_once(Folding(most).plan(groups), groups, most);
}

TEST(GroupFolding, OneMoreThanAnAxisFoldsIntoTheNext) {
  const Plan plan = Folding(65535).plan(65536);
  ASSERT_EQ(plan.steps.size(), 1u);
  expect_every_group_once(plan, 65536, 65535);
  const auto [x, y, z] = std::get<Dispatch>(plan.steps[0]).groups;
  EXPECT_EQ(uint64_t{x} * y * z, 65536u);
}

TEST(GroupFolding, TakesLimitsOfAnySize) { EXPECT_EQ(Folding(4294967295u).plan(1000).steps.size(), 1u); }

BufferRange constant_floats(PlanBuilder& builder, const std::vector<float>& values, const std::string& label) {
  return builder.add_constant(Tensor::from_floats({static_cast<int64_t>(values.size())}, values).data, label);
}

TEST(PlanBuilder, EqualConstantsAndParametersAreStoredOnce) {
  PlanBuilder builder(default_limits());
  const BufferRange a = constant_floats(builder, {1, 2, 3}, "a");
  const BufferRange b = constant_floats(builder, {4, 5, 6}, "b");
  const BufferRange c = constant_floats(builder, {1, 2, 3}, "c");
  EXPECT_EQ(a.offset, c.offset);
  EXPECT_NE(a.offset, b.offset);
  EXPECT_EQ(b.offset % default_limits().min_storage_buffer_offset_alignment, 0u);
}

TEST(PlanBuilder, ConstantsGoOnInANewBufferWhereOneIsFull) {
  Limits limits;
  limits.max_buffer_size = 1024;
  PlanBuilder builder(limits);
  std::set<uint32_t> buffers;
  for (int i = 0; i < 10; ++i)
    buffers.insert(constant_floats(builder, std::vector<float>(100, static_cast<float>(i)), "c").buffer);
  EXPECT_EQ(buffers.size(), 5u);
  const Plan plan = builder.finish();
  for (const PlanBuffer& buffer : plan.buffers) EXPECT_LE(buffer.size, limits.max_buffer_size);
}

ErrorCode refusal(const Limits& limits, const DispatchSpec& spec) {
  try {
    PlanBuilder builder(limits);
    DispatchSpec d = spec;
    d.bindings = {{BindingKind::ReadWriteStorage, {builder.add_buffer("out", 4096), 0, 4096}}};
    builder.dispatch(d);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::Cancelled;
}

TEST(PlanBuilder, RefusesWhatTheLimitsDoNotAllow) {
  DispatchSpec d;
  d.params = {0, 0};
  EXPECT_EQ(refusal(default_limits(), d), ErrorCode::Cancelled);  // nothing to refuse
  Limits limits;
  limits.max_storage_buffer_binding_size = 2048;
  EXPECT_EQ(refusal(limits, d), ErrorCode::OverLimits);
  limits = {};
  limits.max_buffer_size = 2048;
  EXPECT_EQ(refusal(limits, d), ErrorCode::OverLimits);
  limits = {};
  limits.max_storage_buffers_per_shader_stage = 0;
  EXPECT_EQ(refusal(limits, d), ErrorCode::OverLimits);
  d.workgroup_bytes = default_limits().max_compute_workgroup_storage_size + 16;
  EXPECT_EQ(refusal(default_limits(), d), ErrorCode::OverLimits);
  d.params.resize(100);
  limits = large_limits();
  limits.max_uniform_buffer_binding_size = 256;
  EXPECT_EQ(refusal(limits, d), ErrorCode::OverLimits);
}

}  // namespace
}  // namespace gyrus::test
