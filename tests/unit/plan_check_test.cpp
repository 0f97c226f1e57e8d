#include "plan/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/limits.h"
#include "unit/plan_samples.h"

namespace gyrus::test {
namespace {

using ::testing::HasSubstr;

Dispatch& dispatch_of(Plan& plan) { return std::get<Dispatch>(plan.steps[1]); }
Copy& copy_of(Plan& plan) { return std::get<Copy>(plan.steps[2]); }

struct Fault {
  const char* name;
  std::function<void(Plan&)> make;
  const char* message;  // a part of it
};

TEST(PlanCheck, AcceptsTheSample) { EXPECT_NO_THROW(check(sample_plan(), default_limits())); }

TEST(PlanCheck, NamesInconsistencies) {
  const Fault faults[] = {
      {"size 0", [](Plan& p) { p.buffers[0].size = 0; }, "buffer 0 'a'"},
      {"odd size", [](Plan& p) { p.buffers[0].size = 4098; }, "multiple of 4"},
      {"total overflow",
       [](Plan& p) {
         p.buffers.push_back({"l", UINT64_MAX - 3, BufferKind::Storage, 0});
         p.buffers.push_back({"m", UINT64_MAX - 3, BufferKind::Storage, 0});
       },
       "overflow"},
      {"weights end", [](Plan& p) { p.buffers[2].data_offset = 260; }, "pass the end of the weights"},
      {"weights overflow", [](Plan& p) { p.buffers[2].data_offset = UINT64_MAX; }, "pass the end of the weights"},
      {"workgroup 0", [](Plan& p) { p.kernels[0].workgroup_size[2] = 0; }, "kernel 0 'scale v4'"},
      {"no entry", [](Plan& p) { p.kernels[0].entry.clear(); }, "no entry point"},
      {"kernel index", [](Plan& p) { dispatch_of(p).kernel = 1; }, "step 1 'conv1'"},
      {"binding count", [](Plan& p) { dispatch_of(p).bindings.pop_back(); }, "3 bindings"},
      {"buffer index", [](Plan& p) { dispatch_of(p).bindings[0].buffer = 9; }, "buffer 9 does not exist"},
      {"range end", [](Plan& p) { dispatch_of(p).bindings[0].size = 4096; }, "pass the end"},
      {"range overflow", [](Plan& p) { dispatch_of(p).bindings[0].size = UINT64_MAX - 3; }, "pass the end"},
      {"offset overflow", [](Plan& p) { dispatch_of(p).bindings[0].offset = UINT64_MAX - 3; }, "pass the end"},
      {"range empty", [](Plan& p) { dispatch_of(p).bindings[0].size = 0; }, "empty"},
      {"range odd", [](Plan& p) { dispatch_of(p).bindings[0].size = 6; }, "multiples of 4"},
      {"params as storage",
       [](Plan& p) {
         dispatch_of(p).bindings[1] = {3, 0, 16};
       },
       "parameter buffer"},
      {"storage as params",
       [](Plan& p) {
         dispatch_of(p).bindings[3] = {0, 0, 16};
       },
       "bound as uniform"},
      {"read and write",
       [](Plan& p) {
         dispatch_of(p).bindings[0] = {1, 2048, 1024};
       },
       "share buffer 'b'"},
      {"group 0", [](Plan& p) { dispatch_of(p).groups[1] = 0; }, "group count of 0"},
      {"negative cost", [](Plan& p) { dispatch_of(p).flops = -1; }, "cost"},
      {"copy sizes", [](Plan& p) { copy_of(p).to.size = 512; }, "step 2"},
      {"copy in place",
       [](Plan& p) {
         copy_of(p).to = {1, 2048, 1024};
       },
       "copies within"},
      {"copy to params",
       [](Plan& p) {
         copy_of(p) = {{1, 0, 16}, {3, 0, 16}};
       },
       "filled once"},
      {"clear range", [](Plan& p) { std::get<Clear>(p.steps[0]).range.buffer = 9; }, "step 0"},
      {"port gap", [](Plan& p) { p.inputs[0].pieces[1].host_offset = 516; }, "passes the tensor"},
      {"port missing", [](Plan& p) { p.inputs[0].pieces.pop_back(); }, "leave out byte 512"},
      {"port surplus", [](Plan& p) { p.outputs[0].shape = {1020}; }, "port 'y'"},
      {"port twice", [](Plan& p) { p.inputs.push_back(p.inputs[0]); }, "twice"},
      {"port shape",
       [](Plan& p) {
         p.outputs[0].shape = {INT64_MAX, INT64_MAX};
       },
       "overflow"},
      {"port negative", [](Plan& p) { p.outputs[0].shape = {-4}; }, "port 'y'"},
      {"input in state",
       [](Plan& p) {
         p.inputs.push_back({"z", DType::F32, {1}, {{0, {6, 0, 4}}}});
       },
       "port 'z'"},
      {"input in arguments",
       [](Plan& p) {
         p.inputs.push_back({"z", DType::F32, {1}, {{0, {7, 0, 4}}}});
       },
       "port 'z'"},
      {"output and capture", [](Plan& p) { p.captures[0].name = "y"; }, "port 'y'] is there twice"},
      {"state twice", [](Plan& p) { p.states[1].name = "s"; }, "state 's'] is there twice"},
      {"state in storage", [](Plan& p) { p.buffers[6].kind = BufferKind::Storage; }, "'t' is none for state"},
      {"state of half a buffer", [](Plan& p) { p.buffers[6].size = 8; }, "state 't'] its pieces are not whole"},
      {"state out of order", [](Plan& p) { std::swap(p.states[0].pieces[0], p.states[0].pieces[1]); }, "not whole"},
      {"state shares a buffer",
       [](Plan& p) {
         p.states.push_back(p.states[1]);
         p.states[2].name = "u";
       },
       "state 'u'] buffer 't' holds two"},
      {"state missing", [](Plan& p) { p.states.pop_back(); }, "buffer 6 't'] belongs to no state"},
      {"start end", [](Plan& p) { p.states[0].start = 672; }, "state 's'] its start"},
      {"start overflow", [](Plan& p) { p.states[0].start = UINT64_MAX; }, "state 's'] its start"},
      {"arguments written",
       [](Plan& p) {
         std::get<Dispatch>(p.steps[3]).bindings[0] = {7, 0, 16};
       },
       "arguments bound to be written"},
      {"arguments cleared",
       [](Plan& p) {
         std::get<Clear>(p.steps[0]).range = {7, 0, 16};
       },
       "argument buffer 'args'"},
      {"argument twice", [](Plan& p) { p.arguments[1].name = "rate"; }, "argument 'rate'] is there twice"},
      {"argument place", [](Plan& p) { p.arguments[1].offset = 16; }, "no place in the argument buffer of 16"},
      {"argument odd", [](Plan& p) { p.arguments[1].offset = 2; }, "argument 'position'] offset 2"},
      {"argument overlap", [](Plan& p) { p.arguments[1].offset = 0; }, "lies where another"},
      {"argument type", [](Plan& p) { p.arguments[0].dtype = DType::F16; }, "arguments are f32, i32 or u32"},
      {"argument range", [](Plan& p) { p.arguments[0].least = 0.75; }, "argument 'rate'] the range"},
      {"argument over i32", [](Plan& p) { p.arguments[1].most = 2147483648.0; }, "passes that of i32"},
      {"argument below u32", [](Plan& p) { p.arguments[1].dtype = DType::U32; }, "passes that of u32"},
      {"argument over f32", [](Plan& p) { p.arguments[0].most = 1e300; }, "passes that of f32"},
      {"no argument buffer",
       [](Plan& p) {
         p.buffers[7].kind = BufferKind::Storage;
         p.steps.pop_back();
       },
       "argument buffer of 0 bytes"},
      {"two argument buffers", [](Plan& p) { p.buffers.push_back(p.buffers[7]); }, "second buffer of arguments"},
      {"report without reports", [](Plan& p) { p.reports.clear(); }, "without a list"},
      {"reports without report", [](Plan& p) { p.report.reset(); }, "without a range"},
      {"report size", [](Plan& p) { p.report->size = 12; }, "16 bytes"},
      {"report range", [](Plan& p) { p.report->offset = 4; }, "pass the end"},
      {"report in state", [](Plan& p) { p.report->buffer = 4; }, "16 bytes of a storage"},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.name);
    Plan plan = sample_plan();
    fault.make(plan);
    const Error error = thrown_by([&] { check_consistent(plan); });
    EXPECT_EQ(error.code(), ErrorCode::InvalidInput) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(fault.message));
  }
}

TEST(PlanCheck, TwoWritesOfDifferentPartsAreFine) {
  Plan plan = sample_plan();
  plan.kernels[0].bindings[0] = BindingKind::ReadWriteStorage;
  dispatch_of(plan).bindings[0] = {1, 2048, 1024};
  EXPECT_NO_THROW(check(plan, default_limits()));
  dispatch_of(plan).bindings[0] = {1, 1024, 1024};  // overlaps [512, 1536)
  EXPECT_EQ(thrown_by([&] { check(plan, default_limits()); }).code(), ErrorCode::InvalidInput);
}

TEST(PlanCheck, NamesWhatIsOverTheLimits) {
  const struct {
    const char* message;
    std::function<void(Limits&)> make;
  } cases[] = {
      {"buffer 0 'a'", [](Limits& l) { l.max_buffer_size = 4092; }},
      {"step 1 'conv1' binding 0", [](Limits& l) { l.max_storage_buffer_binding_size = 1020; }},
      {"step 1 'conv1' binding 3", [](Limits& l) { l.max_uniform_buffer_binding_size = 12; }},
      {"number of storage buffers is 3", [](Limits& l) { l.max_storage_buffers_per_shader_stage = 2; }},
      {"offset 256 is no multiple of 512", [](Limits& l) { l.min_storage_buffer_offset_alignment = 512; }},
      {"group count is 7", [](Limits& l) { l.max_compute_workgroups_per_dimension = 6; }},
      {"invocations per workgroup is 64", [](Limits& l) { l.max_compute_invocations_per_workgroup = 63; }},
      {"workgroup size x", [](Limits& l) { l.max_compute_workgroup_size_x = 7; }},
      {"workgroup size y", [](Limits& l) { l.max_compute_workgroup_size_y = 7; }},
      {"workgroup size z", [](Limits& l) { l.max_compute_workgroup_size_z = 0; }},
      {"workgroup storage", [](Limits& l) { l.max_compute_workgroup_storage_size = 4095; }},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.message);
    Limits limits;
    c.make(limits);
    const Error error = thrown_by([&] { check(sample_plan(), limits); });
    EXPECT_EQ(error.code(), ErrorCode::OverLimits) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(c.message));
  }
}

TEST(PlanCheck, ManyUniformsAndHugeWorkgroups) {
  Plan plan = sample_plan();
  plan.kernels[0].workgroup_size = {65536, 65536, 65536};  // the product passes 2^32
  Limits limits;
  limits.max_compute_workgroup_size_x = limits.max_compute_workgroup_size_y = limits.max_compute_workgroup_size_z =
      1u << 20;
  EXPECT_THAT(thrown_by([&] { check(plan, limits); }).what(), HasSubstr("invocations"));
  plan = sample_plan();
  plan.steps.clear();
  plan.kernels[0].bindings.assign(13, BindingKind::Uniform);
  EXPECT_THAT(thrown_by([&] { check(plan, default_limits()); }).what(), HasSubstr("uniform"));
}

}  // namespace
}  // namespace gyrus::test
