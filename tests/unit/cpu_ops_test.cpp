// The op table on the CPU executor against the reference, with the bounds of devices.
#include <gtest/gtest.h>

#include <cstring>

#include "cpu/network.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "reference/reference.h"
#include "support/op_bounds.h"

namespace gyrus::test {
namespace {

struct Ran {
  std::map<std::string, Tensor> outputs;
  std::vector<std::string> kernels;
};

Ran run(const OpCase& c, const Graph& graph, const std::map<std::string, Tensor>& inputs, int threads,
        bool halves = false) {
  cpu::ThreadPool pool(threads);
  cpu::NetworkOptions options;
  options.kernels.winograd = !c.exact;  // its transforms round
  const Graph plain = optimize_plain(graph);
  cpu::Network network(halves ? store_halves(plain) : plain, options);
  const Graph& ready = network.graph();
  std::map<std::string, Tensor> narrowed;
  for (const Port& port : ready.inputs()) {
    const Tensor& given = inputs.at(port.name);
    narrowed[port.name] = is_wide(given.dtype) ? narrow(given, port.name, ErrorCode::InvalidInput) : given;
    network.bind(port.value, narrowed[port.name].data.data());
  }
  std::map<std::string, Tensor> states;
  for (const State& state : ready.states()) {
    const TensorType& type = ready.type(state.value);
    states[state.name] = state.start ? *state.start : Tensor(type.dtype, type.shape);
    network.bind(state.value, states[state.name].data.data());
  }
  network.run(pool);
  Ran ran;
  for (const Port& port : ready.outputs()) {
    Tensor out(ready.type(port.value).dtype, ready.type(port.value).shape);
    if (!out.data.empty()) std::memcpy(out.data.data(), network.data(port.value), out.data.size());
    ran.outputs[port.name] = std::move(out);
  }
  for (const cpu::StepFacts& step : network.steps()) ran.kernels.push_back(step.kernel);
  return ran;
}

class CpuOps : public testing::TestWithParam<const OpCase*> {};

void expect_near(const OpCase& c, const OpSetting& setting, const Ran& ran,
                 const std::map<std::string, RefTensor>& want) {
  for (const auto& [name, expected] : want) {
    const Tensor& got = ran.outputs.at(name);
    ASSERT_EQ(got.shape, expected.shape);
    if (is_float(got.dtype)) {
      const reference::Difference d = reference::difference(got, expected);
      EXPECT_LE(d.nmse, most_nmse(c, setting, got.dtype)) << c.name << " output " << name;
      EXPECT_LE(d.largest, most_largest(c, setting, got.dtype)) << c.name << " output " << name;
      continue;
    }
    int64_t different = 0;
    for (int64_t i = 0; i < got.size(); ++i) different += get(got, i) != expected.data[static_cast<size_t>(i)];
    EXPECT_LE(static_cast<double>(different), most_different(c, setting, got.size())) << c.name << " output " << name;
  }
}

TEST_P(CpuOps, MatchTheReferenceWithAnyNumberOfThreads) {
  const OpCase& c = *GetParam();
  const Graph graph = case_graph(c);
  const std::map<std::string, Tensor> inputs = case_inputs(c, 7);
  const std::map<std::string, RefTensor> want = reference::run(graph, inputs);
  const Ran ran = run(c, graph, inputs, 1);
  expect_near(c, {"cpu", default_limits(), Precision::F32, {}}, ran, want);
  expect_near(c, {"cpu-f16", default_limits(), Precision::F16, {}}, run(c, graph, inputs, 2, true), want);
  for (const int threads : {2, 8}) {
    const Ran again = run(c, graph, inputs, threads);
    for (const auto& [name, tensor] : ran.outputs) EXPECT_EQ(again.outputs.at(name).data, tensor.data) << threads;
  }
}

std::vector<const OpCase*> all_cases() {
  std::vector<const OpCase*> cases;
  for (const OpCase& c : op_cases()) cases.push_back(&c);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CpuOps, testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return tested.param->name; });

}  // namespace
}  // namespace gyrus::test
