// Plans of the whole op table under large, default, tiny and random limits, checked without a GPU.
#include <cstdlib>
#include <cstring>

#include "plan_support.h"
#include "support/random_graph.h"

namespace gyrus::test {
namespace {

struct Setting {
  const char* name;
  Limits limits;
  Precision precision;
};

std::vector<Setting> settings() {
  return {{"large", large_limits(), Precision::F32},     {"large f16", large_limits(), Precision::F16},
          {"default", default_limits(), Precision::F32}, {"default f16", default_limits(), Precision::F16},
          {"tiny", tiny_limits(), Precision::F32},       {"tiny f16", tiny_limits(), Precision::F16},
          {"small", small_limits(), Precision::F32},     {"small f16", small_limits(), Precision::F16}};
}

TEST(MakePlan, KeepsTheLimitsAndNeedsTheLeastForEveryOpCase) {
  for (const Setting& setting : settings())
    for (const OpCase& c : op_cases()) {
      SCOPED_TRACE(cat(c.name, " ", setting.name));
      const Graph graph = optimize(case_graph(c), setting.precision);
      for (const PlanOptions& options : {PlanOptions{}, software_options()}) {
        Plan plan;
        ASSERT_NO_THROW(plan = make_plan(graph, setting.limits, options));
        expect_sound(plan, setting.limits);
        expect_least(plan);
        if (testing::Test::HasFailure()) return;
      }
    }
}

// With a cap on the work of a dispatch the same groups run, each once, in pieces that keep it where they can.
TEST(MakePlan, CutsDispatchesThatWouldHoldADeviceForLong) {
  size_t cut = 0;
  for (const double most : {2e3, 2e4, 2e5})
    for (const Limits& limits : {default_limits(), tiny_limits()})
      for (const OpCase& c : op_cases()) {
        SCOPED_TRACE(cat(c.name, " at ", most));
        PlanOptions options;
        options.dispatch_flops = most;
        const Graph graph = optimize(case_graph(c), Precision::F32);
        const Plan whole = make_plan(graph, limits), plan = make_plan(graph, limits, options);
        expect_sound(plan, limits);
        EXPECT_NEAR(plan.flops(), whole.flops(), 1e-6 * whole.flops());
        cut += plan.steps.size() > whole.steps.size();
        uint64_t next = 0;  // group
        for (const Step& step : plan.steps) {
          const auto* dispatch = std::get_if<Dispatch>(&step);
          if (!dispatch) continue;
          const BufferRange& params = dispatch->bindings.at(0);
          const std::byte* at = plan.weights.data() + plan.buffers.at(params.buffer).data_offset + params.offset;
          uint32_t words[2];  // the first group and their count
          std::memcpy(words, at, sizeof words);
          const uint64_t groups = uint64_t{dispatch->groups[0]} * dispatch->groups[1] * dispatch->groups[2];
          EXPECT_EQ(words[0], next) << dispatch->label;
          next = words[0] + groups >= words[1] ? 0 : words[0] + groups;
          EXPECT_TRUE(groups == 1 || dispatch->flops <= most * 1.01) << dispatch->label << " " << dispatch->flops;
        }
        EXPECT_EQ(next, 0u);
        if (testing::Test::HasFailure()) return;
      }
  EXPECT_GT(cut, 100u);
}

TEST(MakePlan, ComesBackFromJsonByteForByte) {
  for (const Limits& limits : {default_limits(), tiny_limits()})
    for (const OpCase& c : op_cases()) {
      SCOPED_TRACE(c.name);
      expect_round_trip(make_plan(optimize(case_graph(c), Precision::F16), limits));
    }
}

TEST(MakePlan, IsAPureFunction) {
  for (const OpCase& c : op_cases()) {
    const Graph graph = optimize(case_graph(c), Precision::F16);
    const Plan first = make_plan(graph, tiny_limits());
    const Plan second = make_plan(graph, tiny_limits());
    EXPECT_EQ(to_json(first), to_json(second)) << c.name;
    EXPECT_EQ(first.weights, second.weights) << c.name;
  }
}

// No step reads memory that holds nothing yet. Every value has memory of its own here: where it is shared, what an
// earlier tenant left would pass for content.
TEST(MakePlan, ReadsNothingBeforeItIsWritten) {
  PlanOptions options;
  options.share_memory = false;
  for (const OpCase& c : op_cases()) {
    SCOPED_TRACE(c.name);
    const Plan plan = make_plan(optimize(case_graph(c), Precision::F16), tiny_limits(), options);
    std::vector<bool> filled(plan.buffers.size());
    for (size_t b = 0; b < plan.buffers.size(); ++b) filled[b] = plan.buffers[b].kind != BufferKind::Storage;
    for (const PlanPort& port : plan.inputs)
      for (const Piece& piece : port.pieces) filled[piece.range.buffer] = true;
    for (const Step& step : plan.steps) {
      if (const auto* copy = std::get_if<Copy>(&step)) {
        EXPECT_TRUE(filled[copy->from.buffer]);
        filled[copy->to.buffer] = true;
      }
      const auto* dispatch = std::get_if<Dispatch>(&step);
      if (!dispatch) continue;
      const std::vector<BindingKind>& kinds = plan.kernels[dispatch->kernel].bindings;
      for (size_t b = 0; b < kinds.size(); ++b)
        EXPECT_TRUE(kinds[b] == BindingKind::ReadWriteStorage || filled[dispatch->bindings[b].buffer])
            << dispatch->label;
      for (size_t b = 0; b < kinds.size(); ++b)
        if (kinds[b] == BindingKind::ReadWriteStorage) filled[dispatch->bindings[b].buffer] = true;
    }
    for (const PlanPort& port : plan.outputs)
      for (const Piece& piece : port.pieces) EXPECT_TRUE(filled[piece.range.buffer]) << port.name;
  }
}

// A plan that keeps the limits, or a refusal that says so; returns whether there is a plan.
bool plans_or_refuses(const Graph& graph, const Limits& limits, const PlanOptions& options) {
  try {
    const Plan plan = make_plan(graph, limits, options);
    expect_sound(plan, limits);
    expect_round_trip(plan);
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::OverLimits || error.code() == ErrorCode::Unsupported) << error.what();
    EXPECT_EQ(error.what()[0], '[');
    return false;
  }
}

TEST(MakePlan, KeepsRandomLimitsOrRefuses) {
  Rng rng(6);
  int plans = 0, all = 0;
  const int rounds = std::getenv("GYRUS_TEST_FULL") ? 4 : 2;
  for (const OpCase& c : op_cases())
    for (int i = 0; i < (c.large ? 1 : rounds); ++i) {
      Limits limits = random_limits(rng);
      // Large tensors in kilobytes would make millions of dispatches.
      if (c.large) limits.max_storage_buffer_binding_size = limits.max_buffer_size = uint64_t{3} << 17;
      SCOPED_TRACE(c.name + " " + to_text(limits));
      const Graph graph = optimize(case_graph(c), i % 2 ? Precision::F16 : Precision::F32);
      plans += plans_or_refuses(graph, limits, (i + all) % 4 < 2 ? PlanOptions{} : software_options());
      ++all;
      if (testing::Test::HasFailure()) return;
    }
  EXPECT_GT(plans, all * 6 / 10);
}

TEST(MakePlan, RandomNetworksUnderRandomLimitsPlanOrAreRefused) {
  constexpr uint64_t kGraphs = 600;
  Rng rng(7);
  int plans = 0;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = random_graph(seed);
    const Limits limits = random_limits(rng);
    SCOPED_TRACE(cat("seed ", seed, " ", to_text(limits), "\n", print(graph)));
    const Graph ready = optimize(graph, seed % 2 ? Precision::F16 : Precision::F32);
    plans += plans_or_refuses(ready, limits, seed % 3 ? PlanOptions{} : software_options());
    if (testing::Test::HasFailure()) return;
    EXPECT_TRUE(plans_or_refuses(ready, tiny_limits(), {}));
  }
  EXPECT_GT(plans, static_cast<int>(kGraphs / 4));
}

TEST(MakePlan, RefusesACompositeThatNoPassTookApart) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {1, 4, 9}});
  graph.add_output("y", graph.add("softmax", {x}, {{"axis", int64_t{1}}}));
  try {
    make_plan(graph, default_limits());
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidGraph);
  }
}

TEST(MakePlan, RefusesTensorsBeyondTheIndexOfAKernel) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::U8, {1 << 12, 1 << 11, 1 << 10}});
  graph.add_output("y", graph.add("affine_clamp", {x}));
  try {
    make_plan(optimize(graph, Precision::F32), large_limits());
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OverLimits);
    EXPECT_NE(std::string(error.what()).find("smaller volume"), std::string::npos);
  }
}

TEST(MakePlan, ConstantsAndInputsMayBeOutputs) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {3}});
  graph.add_output("same", x);
  graph.add_output("constant", graph.add("neg", {graph.add_constant("c", Tensor::from_floats({2}, {1, 2}))}));
  const Plan plan = make_plan(optimize(graph, Precision::F32), default_limits());
  EXPECT_TRUE(plan.steps.empty());
  expect_sound(plan, default_limits());
  expect_round_trip(plan);
}

}  // namespace
}  // namespace gyrus::test
