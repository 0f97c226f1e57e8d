// Programs on a device: plans by shape, shared kernels and states, threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "gyrus/gyrus.h"
#include "reference/reference.h"
#include "support/device_tests.h"
#include "support/model_writer.h"
#include "support/test_data.h"

namespace gyrus::test {
namespace {

constexpr int64_t kWidth = 24;

// One head of attention with a residual, a norm over features and a layer behind it.
Graph encoder_block() {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {2, 4, kWidth});
  const auto linear = [&](Value of, const std::string& name) {
    graph.set_label(name);
    const Value bias = graph.parameter(name + ".bias", numbers({kWidth}, static_cast<int64_t>(name[0])));
    return matmul(of, graph.parameter(name, numbers({kWidth, kWidth}, static_cast<int64_t>(name[0]))), {.bias = bias});
  };
  const Value scores = matmul(linear(x, "q"), linear(x, "k"), {.transpose_b = true}) * (1 / std::sqrt(kWidth * 1.0));
  const Value sum = x + matmul(softmax(scores, -1), linear(x, "v"));
  const Value centred = sum - reduce_mean(sum, {{2}, true});
  const Value normal = centred * rsqrt(reduce_mean(square(centred), {{2}, true}) + 1e-5);
  graph.output("y", gelu(linear(normal, "w")));
  return graph;
}

void expect_near(const Tensor& found, const RefTensor& wanted, double bound, const std::string& what) {
  ASSERT_EQ(found.shape, wanted.shape) << what;
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(wanted.data[static_cast<size_t>(i)]));
    worst = std::max(worst, std::abs(get(found, i) - wanted.data[static_cast<size_t>(i)]));
  }
  EXPECT_LE(worst, bound * largest) << what;
}

template <class Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::Io, "none");
}

TEST(Program, CompilesNothingNewFromTheThirdLengthOn) {
  const Graph graph = encoder_block();
  std::vector<Planned> seen;
  ProgramOptions options;
  options.planned = [&](const Planned& planned) { seen.push_back(planned); };
  Program program(device(), graph, options);
  for (int64_t length : {17, 64, 5, 33, 100, 128, 200, 7, 250, 96}) {
    const Tensor x = numbers({2, length, kWidth}, length);
    const Tensor y = program.run({{"x", x}}).outputs.at("y");
    expect_near(y, reference::run(with_shapes(graph, {{"x", x.shape}}), {{"x", x}}).at("y"), 1e-5,
                "length " + std::to_string(length));
    const Planned& planned = seen.back();
    std::printf("length %3d: planned in %5.2f ms, loaded in %7.2f ms, %zu of %zu kernels compiled\n",
                static_cast<int>(length), planned.plan_seconds * 1e3, planned.load_seconds * 1e3, planned.compiled,
                planned.kernels);
    EXPECT_EQ(planned.shapes.at("x"), x.shape);
    EXPECT_TRUE(seen.size() <= 2 || planned.compiled == 0) << "length " << length << " compiled " << planned.compiled;
  }
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_GT(seen.front().compiled, 0u);
  EXPECT_EQ(program.plans().size(), 8u);
  EXPECT_EQ(program.plans().front().shapes.at("x"), (Shape{2, 96, kWidth}));
  program.run({{"x", numbers({2, 96, kWidth})}});
  EXPECT_EQ(seen.size(), 10u) << "a plan that is kept was made again";
}

TEST(Program, KeepsNoMorePlansThanAsked) {
  Graph graph;
  graph.output("y", relu(graph.input("x", DType::F32, {1})));
  ProgramOptions options;
  options.keep_plans = 2;
  Program program(device(), graph, options);
  std::vector<uint64_t> bytes;
  for (int64_t length : {1024, 2048, 512, 1024, 2048, 512}) {
    program.run({{"x", numbers({length})}});
    bytes.push_back(device().buffer_bytes());
  }
  EXPECT_EQ(program.plans().size(), 2u);
  EXPECT_EQ(bytes[5], bytes[2]);
}

TEST(Program, SharesStatesWithOthers) {
  const uint64_t before = device().buffer_bytes();
  {
    Memory memory(device());
    Graph use, train;
    const Value w = use.parameter("w", numbers({4, 4}));
    use.output("y", matmul(use.input("x", DType::F32, {1, 4}), w));
    const Value v = train.parameter("w", numbers({4, 4}));
    train.update(v, v + train.argument("rate", DType::F32, -10, 10));
    Program predict(device(), use, memory), step(device(), train, memory);
    predict.prepare();
    predict.prepare({{"x", {3, 4}}});
    step.prepare();
    EXPECT_EQ(memory.bytes(), 64u);
    const Tensor x = numbers({3, 4}, 5), one = predict.run({{"x", x}}).outputs.at("y");
    RunOptions rate;
    rate.arguments["rate"] = 2;
    step.run({}, rate);
    const Tensor two = predict.run({{"x", x}}).outputs.at("y");
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < 4; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < 4; ++k) sum += 2 * get(x, r * 4 + k);
        EXPECT_NEAR(get(two, r * 4 + c) - get(one, r * 4 + c), sum, 1e-5);
      }
    Graph other;
    const Value u = other.parameter("w", numbers({5}));
    other.output("y", u * 2);
    Program wrong(device(), other, memory);
    EXPECT_EQ(error_of([&] { wrong.run({}); }).code(), ErrorCode::InvalidInput);
    rate.arguments["rate"] = 11;
    EXPECT_FALSE(error_of([&] { step.run({}, rate); }).state_changed());
  }
  EXPECT_EQ(device().buffer_bytes(), before);
}

// On the CPU, where some become what another one holds and some what was computed: all from what was there before.
TEST(Program, StatesOnTheCpuChangeTogether) {
  const Device processor = open_best("cpu");
  Graph graph;
  const Tensor one = numbers({5}, 1), two = numbers({5}, 2), three = numbers({5}, 3);
  const Value a = graph.parameter("a", one), b = graph.parameter("b", two), c = graph.parameter("c", three);
  graph.update(a, b);
  graph.update(b, a);
  graph.update(c, c + a);
  graph.output("sum", a + b);
  Memory memory(processor);
  Program program(processor, graph, memory);
  program.run({});
  EXPECT_EQ(memory.read("a").data, two.data);
  EXPECT_EQ(memory.read("b").data, one.data);
  for (int64_t i = 0; i < 5; ++i) EXPECT_NEAR(get(memory.read("c"), i), get(three, i) + get(one, i), 1e-6);
}

TEST(Program, TakesWideIntegers) {
  Graph graph;
  const Value table = graph.constant(Tensor::from_floats({3, 2}, {1, 2, 3, 4, 5, 6}));
  const Value index = graph.input("index", DType::I64, {2});
  graph.output("rows", gather(table, index));
  graph.output("next", index + 1);
  Program program(device(), graph);
  Tensor index_of(DType::I64, {3});
  for (int64_t i = 0; i < 3; ++i) index_of.as<int64_t>()[i] = 2 - i;
  const RunResult result = program.run({{"index", index_of}});
  EXPECT_EQ(result.outputs.at("rows").shape, (Shape{3, 2}));
  EXPECT_EQ(get(result.outputs.at("rows"), 0), 5);
  EXPECT_EQ(result.outputs.at("next").dtype, DType::I64);
  EXPECT_EQ(get(result.outputs.at("next"), 2), 1);
  index_of.as<int64_t>()[1] = int64_t{1} << 40;
  EXPECT_STREQ(error_of([&] {
                 program.run({{"index", index_of}});
               }).what(),
               "[index] element 1 is 1099511627776, which does not fit 32 bits; devices have no wider integers");
  index_of.as<int64_t>()[1] = 3;
  EXPECT_EQ(error_of([&] { program.run({{"index", index_of}}); }).code(), ErrorCode::InvalidInput);
}

TEST(Program, RunsFromManyThreads) {
  const Graph graph = encoder_block();
  Program program(device(), graph);
  std::map<int64_t, Tensor> alone;
  for (int64_t length : {5, 17, 33}) alone[length] = program.run({{"x", numbers({2, length, kWidth})}}).outputs.at("y");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 6; ++i) {
        const int64_t length = std::array<int64_t, 3>{5, 17, 33}[static_cast<size_t>(t + i) % 3];
        const RunResult result = program.run({{"x", numbers({2, length, kWidth})}});
        if (result.outputs.at("y").data != alone[length].data) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Program, RunsWhileTheCallerGoesOn) {
  Graph graph;
  graph.output("y", graph.input("x", DType::F32, {4}) * 2);
  std::future<RunResult> first, cancelled;
  std::atomic<bool> cancel = true;
  {
    Program program(device(), graph);
    first = program.run_async({{"x", numbers({1000})}});
    RunOptions options;
    options.cancel = &cancel;
    cancelled = program.run_async({{"x", numbers({4})}}, options);
  }  // runs go on without it
  EXPECT_EQ(get(first.get().outputs.at("y"), 7), 2 * get(numbers({1000}), 7));
  EXPECT_EQ(error_of([&] { cancelled.get(); }).code(), ErrorCode::Cancelled);
}

TEST(Program, SaysWhatIsWrong) {
  Graph graph;
  graph.output("y", matmul(graph.input("x", DType::F32, {2, 3}), graph.constant(numbers({3, 4}), "w")));
  Program program(device(), graph);
  const auto message = [&](const std::map<std::string, Tensor>& inputs) {
    return std::string(error_of([&] { program.run(inputs); }).what());
  };
  EXPECT_NE(message({{"z", numbers({2, 3})}}).find("it has: x"), std::string::npos);
  EXPECT_NE(message({}).find("missing"), std::string::npos);
  EXPECT_NE(message({{"x", numbers({2, 4})}}).find("matmul"), std::string::npos);
  EXPECT_EQ(program.run({{"x", numbers({7, 3})}}).outputs.at("y").shape, (Shape{7, 4}));
  EXPECT_THROW(Program(device(), Graph{}), Error);
  ProgramOptions halves;
  halves.precision.compute = DType::F16;
  EXPECT_EQ(error_of([&] { Program(device(), graph, halves).prepare(); }).code(), ErrorCode::Unsupported);
}

TEST(Program, NamesTheNodeThatIsNotFinite) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {4});
  graph.set_label("the logarithm");
  graph.output("y", log(x));
  Program checked(device(), graph, {.check_finite = true});
  const Tensor zero(DType::F32, {4});
  const Error error = error_of([&] { checked.run({{"x", zero}}); });
  EXPECT_EQ(error.code(), ErrorCode::NonFinite);
  EXPECT_NE(std::string(error.what()).find("the logarithm"), std::string::npos);
  EXPECT_TRUE(std::isinf(get(Program(device(), graph).run({{"x", zero}}).outputs.at("y"), 0)));
}

TEST(LoadGraph, GivesTheNetworkOfAModel) {
  const std::string folder = ::testing::TempDir() + "program_model";
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const ByteVector& bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  write("model.json", json_bytes(make_layer_list(3)));
  write("model.pth", make_safetensors(make_meshnet_weights(3)));
  Program program(device(), [&](const Shapes& shapes) { return load_graph(folder, shapes); });
  for (const Shape& shape : {Shape{1, 1, 6, 5, 4}, Shape{1, 1, 8, 8, 8}}) {
    const Tensor image = numbers(shape);
    const Tensor logits = program.run({{"image", image}}).outputs.at("logits");
    expect_near(logits, reference::run(load_graph(folder, {{"image", shape}}), {{"image", image}}).at("logits"), 1e-5,
                to_string(shape));
  }
  EXPECT_EQ(error_of([&] { load_graph(folder, {}); }).code(), ErrorCode::InvalidInput);
  EXPECT_EQ(error_of([&] { load_graph(folder, {{"image", {1, 2, 4, 4, 4}}}); }).code(), ErrorCode::InvalidInput);
  EXPECT_EQ(error_of([&] { load_graph(folder, {{"scan", {1, 1, 4, 4, 4}}}); }).code(), ErrorCode::InvalidInput);
  EXPECT_EQ(error_of([&] { load_graph(folder + "/none", {}); }).code(), ErrorCode::Io);
}

}  // namespace
}  // namespace gyrus::test
