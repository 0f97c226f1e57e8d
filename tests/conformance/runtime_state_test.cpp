// States of planned graphs on a device, against the reference: shared by programs, updated in every way, and after runs
// that failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "conformance/runtime_plans.h"
#include "core/tensor.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "reference/reference.h"

namespace gyrus::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-6;  // sums of a few floats, in another order than the reference's

Plan planned(const Graph& graph, const Limits& limits = {}) { return make_plan(optimize(graph, Precision{}), limits); }

Tensor scalar(double value) {
  Tensor tensor(DType::F32, {});
  set(tensor, 0, value);
  return tensor;
}

Tensor waves(Shape shape, double step) {
  Tensor tensor(DType::F32, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, std::sin(step * static_cast<double>(i + 1)));
  return tensor;
}

void expect_near(const Tensor& found, const RefTensor& want) {
  ASSERT_EQ(found.shape, want.shape);
  for (int64_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(get(found, i), want.data[static_cast<size_t>(i)], kTolerance * (1 + std::abs(want.data[i]))) << i;
}

// y = w · x for `batch` rows; where it learns, w then goes by `rate` against the mean of y.
Graph program(int64_t batch, bool learns) {
  Graph graph;
  const auto start = std::make_shared<Tensor>(waves({1, 5}, 0.7));
  const ValueId w = graph.add_state("w", {DType::F32, {1, 5}}, start);
  const ValueId x = graph.add_input("x", {DType::F32, {batch, 5}});
  const ValueId y = graph.add("mul", {x, w});
  graph.add_output("y", y);
  if (!learns) return graph;
  const ValueId rate = graph.add_argument("rate", DType::F32, -1, 1);
  const ValueId count = graph.add_state("count", {DType::F32, {1}});
  const ValueId mean = graph.add("reduce_mean", {y}, {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{1}}});
  graph.update(w, graph.add("sub", {w, graph.add("mul", {mean, rate})}));
  graph.update(count, graph.add("add", {count, graph.add_constant("one", Tensor::from_floats({1}, {1}))}));
  return graph;
}

TEST(RuntimeState, TwoSizesAndOneThatLearnsShareOneMemory) {
  const Graph one = program(1, false), four = program(4, false), learner = program(3, true);
  const Device device = open_device();
  Memory memory(device);
  Executor first(device, planned(one), memory), second(device, planned(four), memory);
  Executor third(device, planned(learner), memory);
  EXPECT_EQ(memory.names(), (std::vector<std::string>{"count", "w"}));
  reference::States states;
  for (int round = 0; round < 3; ++round) {
    const auto infer = [&](const Graph& graph, Executor& executor, int64_t batch) {
      const Tensor x = waves({batch, 5}, 0.3 + round);
      expect_near(executor.run({{"x", x}}).outputs.at("y"), reference::run(graph, {{"x", x}}, states).at("y"));
    };
    infer(one, first, 1);
    infer(four, second, 4);
    const Tensor x = waves({3, 5}, 0.9 + round);
    RunOptions options;
    options.arguments["rate"] = 0.25;
    expect_near(third.run({{"x", x}}, options).outputs.at("y"),
                reference::run(learner, {{"x", x}, {"rate", scalar(0.25)}}, states).at("y"));
    expect_near(memory.read("w"), states.at("w"));
    EXPECT_EQ(get(memory.read("count"), 0), round + 1);
  }
}

TEST(RuntimeState, BytesAreCountedOnceAndFreedWithTheLast) {
  const Device device = open_device();
  Executor(device, planned(program(2, false))).run({{"x", waves({2, 5}, 1)}});  // the staging stays
  const uint64_t before = device.buffer_bytes();
  auto memory = std::make_unique<Memory>(device);
  const auto make = [&](int64_t batch, bool learns) {
    return std::make_unique<Executor>(device, planned(program(batch, learns)), *memory);
  };
  auto one = make(1, false), four = make(4, false), learner = make(3, true);
  EXPECT_EQ(memory->bytes(), 5u * 4 + 4);
  uint64_t owned = 0;
  for (const auto* executor : {&one, &four, &learner}) {
    owned += (*executor)->allocated_bytes();
    EXPECT_EQ((*executor)->allocated_bytes() + (executor == &learner ? 24 : 20), (*executor)->plan().peak_bytes());
  }
  EXPECT_EQ(device.buffer_bytes() - before, owned + 24);
  memory.reset();
  one.reset();
  learner.reset();
  EXPECT_EQ(device.buffer_bytes() - before, four->allocated_bytes() + 24) << "states live with the last executor";
  EXPECT_EQ(four->run({{"x", waves({4, 5}, 1)}}).outputs.size(), 1u);
  four.reset();
  EXPECT_EQ(device.buffer_bytes(), before);
}

TEST(RuntimeState, EveryWayToUpdateMatchesTheReference) {
  const Shape shape{2, 3, 4, 5};
  const TensorType type{DType::F32, shape};
  std::vector<std::pair<const char*, Graph>> graphs(5);
  const auto begin = [&](size_t i, const char* name) -> Graph& {
    graphs[i].first = name;
    graphs[i].second.add_state("a", type, std::make_shared<Tensor>(waves(shape, 0.1)));
    graphs[i].second.add_state("b", type, std::make_shared<Tensor>(waves(shape, 0.2)));
    return graphs[i].second;
  };
  const ValueId a = 0, b = 1;
  Graph& swapped = begin(0, "swapped");
  swapped.update(a, b);
  swapped.update(b, a);
  Graph& in_place = begin(1, "in place, and read before");
  in_place.add_output("old", in_place.add("relu", {a}));
  in_place.update(a, in_place.add("add", {a, b}));
  Graph& shifted = begin(2, "what the other was, while that changes");
  shifted.update(b, a);
  shifted.update(a, shifted.add("mul", {a, b}));
  shifted.add_output("before", a);
  Graph& moved = begin(3, "by an op that cannot write in place");
  const ValueId turned = moved.add("transpose", {moved.add("reshape", {a}, {{"shape", std::vector<int64_t>{6, 20}}})},
                                   {{"perm", std::vector<int64_t>{1, 0}}});
  moved.update(a, moved.add("reshape", {turned}, {{"shape", shape}}));
  Graph& constant = begin(4, "a constant, and one value for two");
  const ValueId value = constant.add_constant("value", waves(shape, 0.5));
  constant.update(a, value);
  constant.update(b, value);
  for (const auto& [name, graph] : graphs) {
    SCOPED_TRACE(name);
    for (const Limits& limits : {Limits{}, tiny_limits()}) {
      Executor executor(test_device(), planned(graph, limits));
      reference::States states;
      for (int run = 0; run < 3; ++run) {
        const auto want = reference::run(graph, {}, states);
        const RunResult result = executor.run({});
        for (const auto& [output, tensor] : result.outputs) expect_near(tensor, want.at(output));
        for (const auto& [state, tensor] : states) expect_near(executor.memory().read(state), tensor);
      }
    }
  }
}

// A state of 9 MB, in several pieces under small limits, that grows by one in each run.
Graph counter(Shape shape) {
  Graph graph;
  const ValueId s = graph.add_state("s", {DType::F32, std::move(shape)});
  graph.update(s, graph.add("add", {s, graph.add_constant("one", Tensor::from_floats({1}, {1}))}));
  return graph;
}

TEST(RuntimeState, RangesCrossThePiecesOfAState) {
  Executor executor(test_device(), planned(counter({9, 16, 64, 64}), tiny_limits()));
  ASSERT_GT(executor.plan().states[0].pieces.size(), 1u);
  const uint64_t cut = executor.plan().states[0].pieces[0].range.size / 4;
  Memory& memory = executor.memory();
  memory.write("s", Tensor::from_floats({4}, {1, 2, 3, 4}), StateRange{cut - 2, 4});
  executor.run({});
  const Tensor found = memory.read("s", StateRange{cut - 3, 6});
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(get(found, i), (std::vector<double>{1, 2, 3, 4, 5, 1})[i]);
  const std::vector<std::byte> file = memory.save();
  memory.reset();
  EXPECT_EQ(get(memory.read("s", StateRange{cut, 1}), 0), 0);
  memory.load(file);
  EXPECT_EQ(memory.read("s").data.size(), 9u * 16 * 64 * 64 * 4);
  EXPECT_EQ(get(memory.read("s", StateRange{cut, 1}), 0), 4);
}

TEST(RuntimeState, RunsThatFailSayWhatBecameOfStates) {
  // Two states, so that there are submissions before and after the first write.
  Graph graph = counter({4, 4});
  const ValueId t = graph.add_state("t", {DType::F32, {4, 4}});
  graph.update(t, graph.add("softmax", {graph.add("relu", {t})}, {{"axis", int64_t{0}}}));
  graph.add_output("y", graph.add_state("unwritten", {DType::F32, {2}}));
  ExecutorOptions short_submissions;
  short_submissions.submission_seconds = 1e-9;
  Executor executor(test_device(), planned(graph), short_submissions);
  executor.run({});
  const auto cancelled_at = [&](int calls) {
    RunOptions options;
    std::atomic<bool> flag{calls == 0};
    options.cancel = &flag;
    options.progress = [&](double, const std::string&) { return --calls > 0; };
    return error_of([&] { executor.run({}, options); });
  };
  const Error before = cancelled_at(0);
  EXPECT_EQ(before.code(), ErrorCode::Cancelled);
  EXPECT_FALSE(before.state_changed());
  EXPECT_TRUE(executor.memory().undefined().empty());
  EXPECT_EQ(get(executor.memory().read("s"), 0), 1);

  const int steps = static_cast<int>(executor.plan().steps.size());
  const Error after = cancelled_at(steps);
  EXPECT_EQ(after.code(), ErrorCode::Cancelled);
  EXPECT_TRUE(after.state_changed());
  EXPECT_THAT(after.what(), HasSubstr("; states may have changed"));
  EXPECT_EQ(executor.memory().undefined(), (std::vector<std::string>{"s", "t"}));
  EXPECT_THAT(error_of([&] { executor.run({}); }).what(), HasSubstr("undefined since a run failed"));
  EXPECT_THAT(error_of([&] { executor.memory().read("s"); }).what(), HasSubstr("[s]"));
  executor.memory().write("s", Tensor(DType::F32, {4, 4}));
  executor.memory().reset({"t"});
  executor.run({});
  EXPECT_EQ(get(executor.memory().read("s"), 0), 1);
}

// What is started behind a run that is under way sees the states that it leaves; results may be dropped.
TEST(RuntimeState, RunsMayBeStartedBeforeOthersHaveEnded) {
  const Graph learner = program(3, true), four = program(4, false);
  const Device& device = test_device();
  Memory memory(device);
  Executor learns(device, planned(learner), memory), reads(device, planned(four), memory);
  const Tensor x = waves({3, 5}, 0.3), other = waves({3, 5}, 1.1), probe = waves({4, 5}, 0.9);
  RunOptions options;
  options.arguments = {{"rate", 0.25}};
  PendingRun first = learns.start({{"x", x}}, options);
  PendingRun second = learns.start({{"x", other}}, options);
  { const PendingRun dropped = learns.start({{"x", x}}, options); }
  PendingRun last = reads.start({{"x", probe}});
  const Tensor seen = last.finish().outputs.at("y"), one = first.finish().outputs.at("y");
  const Tensor two = second.finish().outputs.at("y");
  EXPECT_EQ(get(memory.read("count"), 0), 3);

  Memory again(device);
  Executor learns_again(device, planned(learner), again), reads_again(device, planned(four), again);
  EXPECT_EQ(learns_again.run({{"x", x}}, options).outputs.at("y").data, one.data);
  EXPECT_EQ(learns_again.run({{"x", other}}, options).outputs.at("y").data, two.data);
  learns_again.run({{"x", x}}, options);
  EXPECT_EQ(reads_again.run({{"x", probe}}).outputs.at("y").data, seen.data);
  EXPECT_EQ(again.read("w").data, memory.read("w").data);
}

// An index that is out of range is heard of by the run that had it.
TEST(RuntimeState, AStartedRunThatFailsSaysSoAtItsEnd) {
  Graph graph = counter({4});
  const ValueId table = graph.add_constant("table", std::make_shared<Tensor>(waves({3, 2}, 1)));
  graph.add_output("found", graph.add("gather", {table, graph.add_input("at", {DType::I32, {1}})}));
  Executor executor(test_device(), planned(graph));
  const auto at = [](int32_t place) {
    Tensor tensor(DType::I32, {1});
    tensor.as<int32_t>()[0] = place;
    return tensor;
  };
  PendingRun good = executor.start({{"at", at(2)}}), bad = executor.start({{"at", at(7)}});
  EXPECT_NO_THROW(good.finish());
  const Error error = error_of([&] { bad.finish(); });
  EXPECT_EQ(error.code(), ErrorCode::InvalidInput);
  EXPECT_TRUE(error.state_changed());
  EXPECT_EQ(executor.memory().undefined(), std::vector<std::string>{"s"});
}

TEST(RuntimeState, CallsFromInsideARunAreRefused) {
  Executor executor(test_device(), planned(counter({4})));
  RunOptions options;
  std::string said;
  options.progress = [&](double, const std::string&) {
    said = error_of([&] { executor.memory().read("s"); }).what();
    return true;
  };
  executor.run({}, options);
  EXPECT_THAT(said, HasSubstr("[memory] is in use"));
}

TEST(RuntimeState, ThreadsTakeTurns) {
  const Device& device = test_device();
  Memory memory(device);
  const auto plan = std::make_shared<const Plan>(planned(counter({1000})));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      Executor executor(device, plan, memory);
      for (int i = 0; i < 10; ++i) {
        executor.run({});
        memory.read("s");
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(get(memory.read("s"), 999), 30);
}

TEST(RuntimeState, TensorsGoFromRunToRunOnTheDevice) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::F32, {9, 16, 64, 64}});
  graph.add_output("y", graph.add("neg", {x}));
  Executor whole(test_device(), planned(graph)), cut(test_device(), planned(graph, tiny_limits()));
  const Tensor given = waves({9, 16, 64, 64}, 0.01);
  RunOptions keep;
  keep.keep = {"y"};
  RunResult result = whole.run({{"x", given}}, keep);
  EXPECT_TRUE(result.outputs.empty());
  keep.device_inputs.emplace("x", result.kept.at("y"));
  result = cut.run({}, keep);  // of other pieces
  EXPECT_EQ(result.profile.uploaded_bytes, 0u);
  EXPECT_EQ(result.kept.at("y").read().data, given.data);
  RunOptions back;
  back.device_inputs.emplace("x", result.kept.at("y"));
  EXPECT_EQ(get(whole.run({}, back).outputs.at("y"), 77), -get(given, 77));
  Executor elsewhere(open_device(), planned(graph));
  EXPECT_THAT(error_of([&] { elsewhere.run({}, back); }).what(), HasSubstr("[x] lies on another device"));
  EXPECT_THAT(error_of([&] { whole.run({{"x", given}}, back); }).what(), HasSubstr("given twice"));
}

}  // namespace
}  // namespace gyrus::testing
