#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "core/error.h"
#include "core/tensor.h"
#include "graph/append.h"
#include "graph/op.h"
#include "gyrus/losses.h"
#include "op_cases.h"
#include "ops/elementwise.h"
#include "reference/reference.h"
#include "train/autodiff.h"

// Gradients of every op of the table of cases against differences, in doubles.

namespace gyrus::test {
namespace {

using reference::States;

// The graph with its inputs as states, which the reference keeps in doubles.
Graph with_states(const Graph& graph) {
  Graph result;
  std::vector<ValueId> states;
  for (const Port& port : graph.inputs()) states.push_back(result.add_state(port.name, graph.type(port.value)));
  const std::vector<ValueId> outputs = append_graph(result, graph, states);
  for (size_t i = 0; i < outputs.size(); ++i) result.add_output(graph.outputs()[i].name, outputs[i]);
  return result;
}

double dot(const RefTensor& a, const RefTensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

RefTensor random_like(const Shape& shape, Rng& rng) {
  RefTensor t{shape, std::vector<double>(static_cast<size_t>(element_count(shape)))};
  for (double& value : t.data) value = rng.normal();
  return t;
}

// A case as a function of its inputs of floats, and its gradient in a random direction.
class Differences {
 public:
  explicit Differences(const OpCase& c) : graph_(with_states(case_graph(c))), rng_(7) {
    for (const auto& [name, tensor] : case_inputs(c, 1)) {
      start_[name] = reference::from_tensor(tensor);
      if (is_float(tensor.dtype)) direction_[name] = random_like(tensor.shape, rng_);
    }
    for (const Port& port : graph_.outputs())
      if (is_float(graph_.type(port.value).dtype))
        upstream_[port.name] = random_like(graph_.type(port.value).shape, rng_);
  }

  bool has_any() const { return !direction_.empty() && !upstream_.empty(); }

  // Σ upstream · output, `step` along the direction.
  double value(double step) {
    States states = start_;
    for (auto& [name, tensor] : direction_)
      for (size_t i = 0; i < tensor.data.size(); ++i) states[name].data[i] += step * tensor.data[i];
    const auto outputs = reference::run(graph_, {}, states);
    double sum = 0;
    for (const auto& [name, weights] : upstream_) sum += dot(outputs.at(name), weights);
    return sum;
  }

  double difference(double h) { return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h); }

  double gradient() {
    Graph graph = differentiable(graph_);
    const std::vector<Port> outputs = graph.outputs();
    States states = start_;
    std::vector<Seed> seeds;
    for (const Port& port : outputs) {
      if (upstream_.count(port.name) == 0) continue;
      const std::string name = "upstream/" + port.name;
      seeds.push_back({port.value, graph.add_state(name, {DType::F32, graph.type(port.value).shape, Layout::Plain})});
      if (graph.type(port.value).dtype == DType::F16)
        seeds.back().gradient = graph.add("cast", {seeds.back().gradient}, {{"to", "f16"}});
      states[name] = upstream_.at(port.name);
    }
    std::vector<ValueId> of;
    std::vector<std::string> names;
    for (const State& state : graph.states())
      if (direction_.count(state.name) != 0) {
        of.push_back(state.value);
        names.push_back(state.name);
      }
    const std::vector<ValueId> found = add_gradients(graph, seeds, of);
    for (size_t i = 0; i < of.size(); ++i)
      if (found[i] != kNoValue) graph.add_output("gradient/" + names[i], found[i]);
    const auto results = reference::run(graph, {}, states);
    double sum = 0;
    for (size_t i = 0; i < of.size(); ++i)
      if (found[i] != kNoValue) sum += dot(results.at("gradient/" + names[i]), direction_.at(names[i]));
    return sum;
  }

 private:
  Graph graph_;
  Rng rng_;
  States start_;
  std::map<std::string, RefTensor> direction_, upstream_;
};

// A number beside which what is added to it is lost: the sum is a step for differences.
bool swallows(const Graph& graph, ValueId id) {
  if (id == kNoValue || !graph.is_constant(id)) return false;
  for (int64_t i = 0; i < graph.constant(id).size(); ++i)
    if (std::abs(get(graph.constant(id), i)) > 1e30) return true;
  return false;
}

// Where a function has corners or steps at the numbers of a case, or runs through halves, differences tell nothing.
bool is_smooth(const OpCase& c) {
  if (c.large || c.exact || c.fill == Fill::Whole || c.fill == Fill::Extreme) return false;
  const Graph graph = case_graph(c);
  for (const Node& node : graph.nodes()) {
    if (op(node.op).dtype_attr == "to") return false;  // casts
    for (ValueId id : node.inputs)
      if (node.op == "add" && swallows(graph, id)) return false;
  }
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.type(id).dtype == DType::F16) return false;
  return c.op != "mod" && c.op != "fmod" && c.op != "floor" && c.op != "ceil" && c.op != "round" && c.op != "trunc" &&
         c.op != "detach";
}

// Made by passes after gradients, or for language models that are used, with the scatters of which no gradient exists.
bool has_none(const std::string& message) {
  for (const char* known :
       {"norm_sums", "rows", "strided", "fused", "repack", "arrange", "carries a body", "statistics",
        "scatter with mul, min or max", "op splat_blend_back", "op block_matmul", "op cached_attention", "op gated"})
    if (message.find(known) != std::string::npos) return true;
  return false;
}

TEST(Gradients, OfEveryOpEqualDifferences) {
  std::set<std::string> seen;
  for (const OpCase& c : op_cases()) {
    if (!is_smooth(c)) continue;
    SCOPED_TRACE(c.name);
    try {
      Differences d(c);
      if (!d.has_any()) continue;
      const double found = d.gradient(), wanted = d.difference(1e-5);
      EXPECT_NEAR(found, wanted, 2e-6 * std::max({1.0, std::abs(wanted)}));
      seen.insert(c.op);
    } catch (const Error& error) {
      EXPECT_TRUE(has_none(error.what())) << error.what();
    }
  }
  EXPECT_GE(seen.size(), 70u);
}

// Of a slice without elements, taken backwards.
TEST(Gradients, OfNothingAreZeros) {
  Graph graph;
  const Value x = graph.input("x", DType::F32, {2, 3});
  const Value none = slice(x, {0, 2}, {0, -4}, {-1, -1});
  graph.output("none", none);
  const ValueId seed = graph.add_constant("", std::make_shared<Tensor>(DType::F32, none.shape()));
  graph.add_output("gradient", add_gradients(graph, {{none.id(), seed}}, {x.id()})[0]);
  const auto made = reference::run(graph, {{"x", Tensor(DType::F32, {2, 3})}});
  EXPECT_EQ(made.at("gradient").shape, (Shape{2, 3}));
  EXPECT_EQ(made.at("gradient").data, std::vector<double>(6, 0));
}

// Losses where nothing counts, or where all is right to the last digit: no gradient, and above all a number.
TEST(Losses, StayNumbersWhereNothingIsLeft) {
  const std::map<std::string, std::function<Value(Value, Value)>> losses = {
      {"nothing counts", [](Value x, Value t) { return cross_entropy(x, t, {.ignore_index = 1}); }},
      {"focal", [](Value x, Value t) { return focal(x, t, {.gamma = 0.5}); }},
      {"focal 0", [](Value x, Value t) { return focal(x, t, {.gamma = 0}); }},
      {"focal_sigmoid",
       [](Value x, Value t) {
         return focal_sigmoid(slice(x, {0, 1}, {2, 2}), cast(reshape(t, {2, 1}), DType::F32), {.gamma = 0.5});
       }},
  };
  for (const auto& [name, loss] : losses) {
    Tensor scores(DType::F32, {2, 2}), classes(DType::I32, {2});
    for (int64_t n = 0; n < 2; ++n) {
      set(scores, 2 * n + 1, 2000);  // certain of class 1
      set(classes, n, 1);
    }
    Graph graph;
    const Value x = graph.input("x", DType::F32, {2, 2}), target = graph.input("target", DType::I32, {2});
    graph.output("loss", loss(x, target));
    graph = differentiable(graph);
    const ValueId made = graph.outputs()[0].value;
    Tensor one(DType::F32, graph.type(made).shape);
    set(one, 0, 1);
    const ValueId seed = graph.add_constant("", std::make_shared<Tensor>(one));
    graph.add_output("gradient", add_gradients(graph, {{made, seed}}, {graph.inputs()[0].value})[0]);
    for (const auto& [output, tensor] : reference::run(graph, {{"x", scores}, {"target", classes}}))
      for (const double value : tensor.data) EXPECT_EQ(value, 0) << name << ": " << output;
  }
}

}  // namespace
}  // namespace gyrus::test
