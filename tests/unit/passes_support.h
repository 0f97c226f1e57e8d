#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "op_cases.h"
#include "passes/passes.h"
#include "reference/reference.h"

// Small networks to send through passes, and what to ask of the result.

namespace gyrus::test {

using Ints = std::vector<int64_t>;

// A folded constant is rounded to f32 once: a relative error of 2^-24 = 6e-8 in each product of a sum, on outputs that
// are of the size of the sum's terms.
constexpr double kFoldedToF32 = 1e-6;

// The reference rounds at casts, not at values that a graph declares as halves; a pass that puts a cast there adds the
// 2^-12 of storing them, in every layer that has them.
constexpr double kDeclaredHalves = 4e-3;

inline double pass_tolerance(const Graph& graph) {
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.type(id).dtype == DType::F16) return kDeclaredHalves;
  return kFoldedToF32;
}

// A graph in the making with one input "x" and named random constants.
struct Net {
  Graph graph;
  Rng rng{17};

  ValueId input(Shape shape, DType dtype = DType::F32) {
    return graph.add_input("x", {dtype, std::move(shape), Layout::Plain});
  }
  ValueId constant(const std::string& name, const Shape& shape, double lo = -1, double hi = 1) {
    Tensor tensor(DType::F32, shape);
    for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, rng.uniform(lo, hi));
    return graph.add_constant(name, std::move(tensor));
  }
  // A convolution that keeps the extents, or a pointwise one.
  ValueId conv(ValueId x, int64_t filters, int64_t kernel, const std::string& name) {
    const int64_t rank = static_cast<int64_t>(graph.type(x).shape.size()) - 2;
    Shape shape(static_cast<size_t>(rank + 2), kernel);
    shape[0] = filters;
    shape[1] = graph.type(x).shape[1];
    const ValueId weight = constant(name + ".w", shape);
    const ValueId bias = constant(name + ".b", {filters});
    const Ints pads(static_cast<size_t>(2 * rank), kernel / 2);
    return graph.add("conv", {x, weight, bias}, kernel > 1 ? Attrs{{"pads", pads}} : Attrs{}, name);
  }
  ValueId batch_norm(ValueId x, const std::string& name) {
    const Shape channels = {graph.type(x).shape[1]};
    return graph.add("batch_norm",
                     {x, constant(name + ".mean", channels), constant(name + ".var", channels, 0.5, 2),
                      constant(name + ".gamma", channels), constant(name + ".beta", channels)},
                     {}, name);
  }
  ValueId group_norm(ValueId x, int64_t groups) { return graph.add("group_norm", {x}, {{"groups", groups}}, "norm"); }
  ValueId add(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph.add(op, inputs, std::move(attrs), op);
  }
  Graph done(ValueId result) {
    graph.add_output("y", result);
    return graph;
  }
};

inline std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.op);
  return ops;
}

inline std::vector<std::string> body_ops(const Node& node) {
  std::vector<std::string> ops;
  for (const Node& step : node.body) ops.push_back(step.op);
  return ops;
}

inline int64_t count_of(const Graph& graph, const std::string& op) {
  const std::vector<std::string> ops = ops_of(graph);
  return std::count(ops.begin(), ops.end(), op);
}

inline std::map<std::string, Tensor> random_inputs(const Graph& graph, uint64_t seed) {
  Rng rng(seed);
  std::map<std::string, Tensor> inputs;
  for (const Port& port : graph.inputs()) {
    const TensorType& type = graph.type(port.value);
    Tensor tensor(type.dtype, type.shape);
    for (int64_t i = 0; i < tensor.size(); ++i)
      set(tensor, i, is_float(type.dtype) ? rng.normal() : static_cast<double>(rng.integer(0, 9)));
    inputs[port.name] = std::move(tensor);
  }
  return inputs;
}

// Fails where an output of `graph` differs from `want` by more than the tolerance.
inline void expect_outputs(const Graph& graph, const std::map<std::string, Tensor>& inputs,
                           const std::map<std::string, RefTensor>& want, double tolerance = kFoldedToF32) {
  const std::map<std::string, RefTensor> got = reference::run(graph, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, expected] : want) {
    ASSERT_EQ(got.count(name), 1u) << name;
    const RefTensor& found = got.at(name);
    ASSERT_EQ(found.shape, expected.shape) << name;
    for (size_t i = 0; i < expected.data.size(); ++i)
      ASSERT_NEAR(found.data[i], expected.data[i], tolerance * (1 + std::abs(expected.data[i]))) << name << " at " << i;
  }
}

// Optimizes, and checks meaning and port types after every pass.
inline Graph checked_optimize(const Graph& graph, Precision precision, uint64_t seed = 5) {
  const std::map<std::string, Tensor> inputs = random_inputs(graph, seed);
  const std::map<std::string, RefTensor> want = reference::run(graph, inputs);
  return optimize(graph, precision, [&](const std::string& pass, const Graph& after) {
    SCOPED_TRACE("after " + pass + "\n" + print(after));
    expect_outputs(after, inputs, want, pass_tolerance(graph));
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      EXPECT_EQ(after.outputs()[i].name, graph.outputs()[i].name);
      EXPECT_EQ(after.type(after.outputs()[i].value), graph.type(graph.outputs()[i].value));
    }
  });
}

}  // namespace gyrus::test
