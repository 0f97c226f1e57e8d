// Scans and gates: in parts and by one lane for each line against the reference, runs that go on from a carried state
// against one long run, RWKV-7 and the gates against numbers from outside (tests/support/scans_oracle.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "gyrus/routing.h"
#include "gyrus/scans.h"
#include "ops/building.h"
#include "passes/passes.h"
#include "plan/planner.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "support/device_tests.h"
#include "support/golden_cases.h"
#include "train/autodiff.h"

namespace gyrus::test {
namespace {

using Tensors = std::map<std::string, Tensor>;

constexpr double kBound = 2e-6;  // max|e| / max|ref|, as for the goldens

Tensors run(const Graph& graph, const Tensors& inputs, bool parts) {
  PlanOptions options = software_options();
  options.scans_in_parts = parts;
  return Executor(device(), make_plan(optimize(graph, Precision::F32), device().limits(), options)).run(inputs).outputs;
}

double distance(const Tensor& found, const RefTensor& wanted) {
  double largest = 1e-30, worst = 0;
  for (int64_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(wanted.data[static_cast<size_t>(i)]));
    worst = std::max(worst, std::abs(get(found, i) - wanted.data[static_cast<size_t>(i)]));
  }
  return worst / largest;
}

Tensor uniform(const Shape& shape, double lo, double hi, uint64_t seed) {
  Tensor t(DType::F32, shape);
  for (int64_t i = 0; i < t.size(); ++i) {
    const uint64_t mixed = (seed * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(i)) * 0xbf58476d1ce4e5b9ull;
    set(t, i, lo + (hi - lo) * static_cast<double>((mixed ^ mixed >> 29) >> 40) * 0x1p-24);
  }
  return t;
}

// A recurrence of `states` over inputs whose axis 1 is time; "start" is the carried state.
struct Recurrence {
  const char* name;
  Tensors (*inputs)(int64_t steps, int64_t states);
  CarriedResult (*build)(const std::map<std::string, Value>& x);
};

const std::vector<Recurrence>& recurrences() {
  static const std::vector<Recurrence> all = {
      {"linear_scan",
       [](int64_t steps, int64_t n) {
         return Tensors{{"a", uniform({2, steps, n}, 0.7, 1, 1)},
                        {"b", uniform({2, steps, n}, -1, 1, 2)},
                        {"start", uniform({2, 1, n}, -1, 1, 3)}};
       },
       [](const std::map<std::string, Value>& x) {
         const Value h = linear_scan(x.at("a"), x.at("b"), 1, x.at("start"));
         return CarriedResult{h, slice_of(h, 1, h.shape()[1] - 1, h.shape()[1])};
       }},
      {"selective_scan",
       [](int64_t steps, int64_t n) {
         return Tensors{{"x", uniform({1, steps, 3}, -1, 1, 1)}, {"dt", uniform({1, steps, 3}, -4, 0, 2)},
                        {"rates", uniform({3, n}, -4, -0.5, 3)}, {"b", uniform({1, steps, n}, -1, 1, 4)},
                        {"c", uniform({1, steps, n}, -1, 1, 5)}, {"z", uniform({1, steps, 3}, -2, 2, 6)},
                        {"start", uniform({1, 3, n}, -1, 1, 7)}};
       },
       [](const std::map<std::string, Value>& x) {
         SelectiveScanOptions options;
         options.gate = x.at("z");
         options.softplus = true;
         options.start = x.at("start");
         return selective_scan(x.at("x"), x.at("dt"), x.at("rates"), x.at("b"), x.at("c"), options);
       }},
      {"gated_delta_rule",
       [](int64_t steps, int64_t n) {
         return Tensors{{"q", uniform({1, steps, 1, n}, -1, 1, 1)}, {"k", uniform({1, steps, 1, n}, -1, 1, 2)},
                        {"v", uniform({1, steps, 1, 5}, -1, 1, 3)}, {"g", uniform({1, steps, 1}, -0.3, 0, 4)},
                        {"beta", uniform({1, steps, 1}, 0, 1, 5)},  {"start", uniform({1, 1, n, 5}, -1, 1, 6)}};
       },
       [](const std::map<std::string, Value>& x) {
         DeltaRuleOptions options;
         options.normalize = true;
         options.start = x.at("start");
         return gated_delta_rule(x.at("q"), x.at("k"), x.at("v"), x.at("g"), x.at("beta"), options);
       }},
      {"rwkv7",
       [](int64_t steps, int64_t n) {
         const Shape row{1, steps, 1, n};
         const double most = 0.5 / std::sqrt(static_cast<double>(n));  // of vectors whose product is below 1/4
         return Tensors{{"r", uniform(row, -1, 1, 1)},
                        {"w", uniform(row, 0.6, 0.95, 2)},
                        {"k", uniform(row, -1, 1, 3)},
                        {"v", uniform({1, steps, 1, 5}, -1, 1, 4)},
                        {"a", uniform(row, -most, most, 5)},
                        {"b", uniform(row, -most, most, 6)},
                        {"start", uniform({1, 1, 5, n}, -1, 1, 7)}};
       },
       [](const std::map<std::string, Value>& x) {
         return rwkv7(x.at("r"), x.at("w"), x.at("k"), x.at("v"), x.at("a"), x.at("b"), x.at("start"));
       }}};
  return all;
}

Graph graph_of(const Recurrence& r, const Tensors& inputs) {
  Graph graph;
  std::map<std::string, Value> values;
  for (const auto& [name, tensor] : inputs) values[name] = graph.input(name, tensor.dtype, tensor.shape);
  const CarriedResult made = r.build(values);
  graph.output("y", made.y);
  graph.output("last", made.last);
  return graph;
}

// The elements of axis 1 from begin to end.
Tensor stretch(const Tensor& x, int64_t begin, int64_t end) {
  Shape shape = x.shape;
  const int64_t inner = strides_of(shape)[1], steps = shape[1];
  shape[1] = end - begin;
  Tensor part(x.dtype, shape);
  for (int64_t i = 0; i < part.size(); ++i)
    set(part, i, get(x, i / ((end - begin) * inner) * steps * inner + begin * inner + i % ((end - begin) * inner)));
  return part;
}

// The inputs of a stretch of time; rates have none.
Tensors stretch(const Tensors& inputs, int64_t begin, int64_t end) {
  Tensors part;
  for (const auto& [name, tensor] : inputs)
    part[name] = name == "start" || name == "rates" ? tensor : stretch(tensor, begin, end);
  return part;
}

void check_recurrence(const Recurrence& r, int64_t steps, int64_t states) {
  SCOPED_TRACE(cat(r.name, " of ", steps, " steps, ", states, " states"));
  Tensors inputs = r.inputs(steps, states);
  const Graph graph = graph_of(r, inputs);
  const auto wanted = reference::run(graph, inputs);
  for (const bool parts : {false, true})
    for (const auto& [name, tensor] : run(graph, inputs, parts))
      EXPECT_LE(distance(tensor, wanted.at(name)), kBound) << name << (parts ? " in parts" : "");
  if (steps == 1) return;
  const int64_t middle = (2 * steps + 1) / 3;
  const Tensors first = stretch(inputs, 0, middle), made = run(graph_of(r, first), first, true);
  Tensors rest = stretch(inputs, middle, steps);
  rest["start"] = made.at("last");
  const Tensors more = run(graph_of(r, rest), rest, true);
  EXPECT_LE(distance(more.at("last"), wanted.at("last")), kBound) << "carried";
  const Tensor whole = reference::to_tensor(wanted.at("y"), DType::F32);
  for (const auto& [part, tensor] :
       {std::pair{stretch(whole, 0, middle), made.at("y")}, std::pair{stretch(whole, middle, steps), more.at("y")}})
    EXPECT_LE(distance(tensor, reference::from_tensor(part)), kBound) << "carried";
}

TEST(Scans, PartsAndCarriedStatesAreOneLongRun) {
  const bool everything = std::getenv("GYRUS_TEST_FULL") != nullptr;
  const std::vector<int64_t> lengths =
      everything ? std::vector<int64_t>{1, 2, 31, 32, 33, 100, 1000, 4096} : std::vector<int64_t>{1, 33, 200};
  for (const Recurrence& r : recurrences())
    for (const int64_t states : everything ? std::vector<int64_t>{16, 24, 100, 256} : std::vector<int64_t>{16, 72})
      for (const int64_t steps : lengths) check_recurrence(r, steps, states);
}

// Pairs joined by the user are what the op gives, and so are their gradients.
TEST(Scans, OfPairsAreTheLinearRecurrence) {
  const auto combine = [](const Tuple& before, const Tuple& after) {
    return Tuple{before[0] * after[0], after[0] * before[1] + after[1]};
  };
  for (const int64_t steps : {1, 2, 3, 7, 64, 101})
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(cat(steps, reverse ? " backwards" : ""));
      const Tensors inputs{{"a", uniform({3, steps}, 0.5, 1, 1)},
                           {"b", uniform({3, steps}, -1, 1, 2)},
                           {"start", uniform({3, 1}, -1, 1, 3)},
                           {"upstream", uniform({3, steps}, -1, 1, 4)}};
      const auto graph_of_scan = [&](bool pairs) {
        Graph graph;
        std::map<std::string, Value> x;
        for (const auto& [name, tensor] : inputs) x[name] = graph.input(name, DType::F32, tensor.shape);
        const Value one = expand(scalar(x["a"], 1), {3, 1});
        const Value y = pairs ? scan({x["a"], x["b"]}, 1, combine, {reverse, {one, x["start"]}})[1]
                              : linear_scan(x["a"], x["b"], 1, x["start"], reverse);
        graph.output("y", y);
        Graph made = differentiable(graph);
        const std::vector<ValueId> of = {x["a"].id(), x["b"].id(), x["start"].id()};
        std::vector<ValueId> inputs_of;
        ValueId upstream = kNoValue;
        for (const Port& port : made.inputs())
          (port.name == "upstream" ? upstream : inputs_of.emplace_back()) = port.value;
        const auto found = add_gradients(made, {{made.outputs()[0].value, upstream}}, inputs_of);
        for (size_t i = 0; i < found.size(); ++i) made.add_output("gradient" + std::to_string(i), found[i]);
        return made;
      };
      const auto wanted = reference::run(graph_of_scan(false), inputs);
      for (const auto& [name, tensor] : run(graph_of_scan(true), inputs, true))
        EXPECT_LE(distance(tensor, wanted.at(name)), kBound) << name;
    }
}

// Products of matrices are not commutative: the earlier stretch comes first.
TEST(Scans, KeepTheOrderOfWhatTheyJoin) {
  const auto combine = [](const Tuple& m, const Tuple& n) {
    return Tuple{m[0] * n[0] + m[1] * n[2], m[0] * n[1] + m[1] * n[3], m[2] * n[0] + m[3] * n[2],
                 m[2] * n[1] + m[3] * n[3]};
  };
  const int64_t steps = 45;
  Graph graph;
  Tensors inputs;
  Tuple x;
  for (int e = 0; e < 4; ++e) {
    const std::string name = cat("m", e);
    inputs[name] = uniform({steps}, -0.9, 0.9, static_cast<uint64_t>(e) + 1);
    x.push_back(graph.input(name, DType::F32, {steps}));
  }
  const Tuple y = scan(x, 0, combine);
  for (size_t e = 0; e < 4; ++e) graph.output(cat("y", e), y[e]);
  const Tensors found = run(graph, inputs, true);
  double m[4] = {1, 0, 0, 1};
  for (int64_t t = 0; t < steps; ++t) {
    double n[4];
    for (int e = 0; e < 4; ++e) n[e] = get(inputs[cat("m", e)], t);
    const double next[4] = {m[0] * n[0] + m[1] * n[2], m[0] * n[1] + m[1] * n[3], m[2] * n[0] + m[3] * n[2],
                            m[2] * n[1] + m[3] * n[3]};
    for (int e = 0; e < 4; ++e) EXPECT_NEAR(get(found.at(cat("y", e)), t), m[e] = next[e], kBound) << t;
  }
}

class Oracle {
 public:
  explicit Oracle(const Json& json) : json_(json) {
    for (const auto& [name, tensor] : json["inputs"].items()) {
      inputs[name] = tensor_of(tensor);
      values_[name] = graph.input(name, DType::F32, inputs[name].shape);
    }
    if (json["op"] == "rwkv7") {
      const CarriedResult r = rwkv7(at("r"), at("w"), at("k"), at("v"), at("a"), at("b"), at("start"));
      outputs = {{"y", r.y}, {"last", r.last}};
      return;
    }
    const Json& a = json["attrs"];
    GateOptions o{a["top_k"], a["groups"], a["top_groups"]};
    o.score = a["score"] == "softmax" ? GateScore::Softmax : GateScore::Sigmoid;
    o.group_score = a["group_score"] == "sum" ? GroupScore::SumOfTwo : GroupScore::Largest;
    o.renormalize = a["renormalize"];
    o.scale = a["scale"];
    o.bias = at("bias");
    const Gate gate = top_k_gate(at("logits"), o);
    outputs = {{"weights", gate.weights}, {"experts", gate.experts}};
  }

  static Tensor tensor_of(const Json& json) {
    Tensor t(DType::F32, json[0].get<Shape>());
    for (int64_t i = 0; i < t.size(); ++i) set(t, i, json[1][static_cast<size_t>(i)].get<double>());
    return t;
  }
  static RefTensor wanted(const Json& json) { return {json[0].get<Shape>(), json[1].get<std::vector<double>>()}; }

  // Outputs and gradients of the inputs, from the upstream gradients as further inputs.
  Graph whole() {
    for (const auto& [name, value] : outputs) graph.output(name, value);
    for (const auto& [name, tensor] : json_["upstream"].items()) {
      inputs["upstream_" + name] = tensor_of(tensor);
      graph.input("upstream_" + name, DType::F32, inputs["upstream_" + name].shape);
    }
    Graph made = differentiable(graph);
    std::map<std::string, ValueId> in, out;
    for (const Port& port : made.inputs()) in[port.name] = port.value;
    for (const Port& port : made.outputs()) out[port.name] = port.value;
    std::vector<Seed> seeds;
    for (const auto& [name, tensor] : json_["upstream"].items()) seeds.push_back({out[name], in["upstream_" + name]});
    std::vector<ValueId> of;
    for (const auto& [name, tensor] : json_["grads"].items()) of.push_back(in[name]);
    const std::vector<ValueId> found = add_gradients(made, seeds, of);
    size_t i = 0;
    for (const auto& [name, tensor] : json_["grads"].items()) {
      if (found[i] != kNoValue) made.add_output("grad_" + name, found[i]);
      ++i;
    }
    return made;
  }

  Graph graph;
  Tensors inputs;
  std::map<std::string, Value> outputs;

 private:
  Value at(const std::string& name) const { return values_.count(name) ? values_.at(name) : Value{}; }
  const Json& json_;
  std::map<std::string, Value> values_;
};

TEST(Scans, EqualNumbersFromOutside) {
  const Json all =
      Json::parse(std::ifstream(std::filesystem::path(GYRUS_SOURCE_DIR) / "tests/data/scans.json"))["cases"];
  int gradients = 0;
  for (const Json& json : all) {
    SCOPED_TRACE(json["name"].get<std::string>());
    Oracle oracle(json);
    const Graph graph = oracle.whole();
    const auto exact = reference::run(graph, oracle.inputs);
    for (const auto& [name, tensor] : run(graph, oracle.inputs, true)) {
      const bool slope = name.find("grad_") == 0;
      gradients += slope;
      const RefTensor wanted = Oracle::wanted(slope ? json["grads"][name.substr(5)] : json["outputs"][name]);
      ASSERT_EQ(tensor.shape, wanted.shape) << name;
      EXPECT_LE(distance(tensor, wanted), name == "experts" ? 0 : kBound) << name;
      EXPECT_LE(distance(reference::to_tensor(exact.at(name), DType::F32), wanted), 1e-7) << name;
    }
  }
  EXPECT_GE(gradients, 20);
}

TEST(Routing, RefusesAnExpertThatIsNotThere) {
  Graph graph;
  const Value expert = graph.input("expert", DType::I32, {5});
  graph.output("y", grouped_matmul(graph.input("x", DType::F32, {5, 3}), graph.input("w", DType::F32, {4, 3, 2}),
                                   group_rows(expert, 4)));
  Tensor chosen(DType::I32, {5});
  chosen.as<int32_t>()[3] = 4;
  const Tensors inputs{{"expert", chosen}, {"x", numbers({5, 3})}, {"w", numbers({4, 3, 2})}};
  try {
    run(graph, inputs, true);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidInput) << error.what();
  }
}

// Two products of each row with the matrices of its experts are what all experts give all rows, weighted with zeros.
TEST(Routing, MixtureEqualsAllExpertsTogether) {
  const int64_t m = 13, k = 6, f = 8, experts = 5, chosen = 2;
  Graph graph;
  const Value x = graph.input("x", DType::F32, {m, k}), router = graph.input("router", DType::F32, {experts, k}),
              up = graph.input("up", DType::F32, {experts, k, f}),
              down = graph.input("down", DType::F32, {experts, f, k});
  const Gate gate = top_k_gate(linear(x, router), {.top_k = chosen});
  const Value rows = reshape(expand(reshape(x, {m, 1, k}), {m, chosen, k}), {chosen * m, k});
  const Value groups = group_rows(reshape(gate.experts, {chosen * m}), experts);
  const Value y = grouped_matmul(silu(grouped_matmul(rows, up, groups)), down, groups);
  graph.output("y", reduce_sum(reshape(y, {m, chosen, k}) * reshape(gate.weights, {m, chosen, 1}), {{1}}));
  const Value share = reduce_sum(one_hot(gate.experts, experts) * reshape(gate.weights, {m, chosen, 1}), {{1}});
  Value all;
  for (int64_t e = 0; e < experts; ++e) {
    const auto of = [&](Value w) { return reshape(slice_of(w, 0, e, e + 1), {w.shape()[1], w.shape()[2]}); };
    const Value part = matmul(silu(matmul(x, of(up))), of(down)) * slice_of(share, 1, e, e + 1);
    all = all ? all + part : part;
  }
  graph.output("all", all);
  const Tensors inputs{{"x", uniform({m, k}, -1, 1, 1)},
                       {"router", uniform({experts, k}, -2, 2, 2)},
                       {"up", uniform({experts, k, f}, -1, 1, 3)},
                       {"down", uniform({experts, f, k}, -1, 1, 4)}};
  const auto wanted = reference::run(graph, inputs);
  const Tensors found = run(graph, inputs, true);
  EXPECT_LE(distance(found.at("y"), wanted.at("all")), kBound);
  EXPECT_LE(distance(found.at("all"), wanted.at("y")), kBound);
}

// A layer of a recurrent network takes a dispatch for many steps.
TEST(Recurrent, TakesNoDispatchForEachStep) {
  const int64_t steps = std::getenv("GYRUS_TEST_FULL") ? 600 : 100, hidden = steps == 600 ? 256 : 24;
  Graph graph;
  const RecurrentWeights weights{graph.input("w", DType::F32, {4 * hidden, 8}),
                                 graph.input("u", DType::F32, {4 * hidden, hidden})};
  const RecurrentResult r = lstm(graph.input("x", DType::F32, {2, steps, 8}), {weights});
  graph.output("y", r.y);
  graph.output("cn", r.cn);
  EXPECT_LE(make_plan(optimize(graph, Precision::F32), device().limits()).steps.size(), 14u);
  const double most = 1 / std::sqrt(static_cast<double>(hidden));
  const Tensors inputs{{"x", uniform({2, steps, 8}, -1, 1, 1)},
                       {"w", uniform({4 * hidden, 8}, -1, 1, 2)},
                       {"u", uniform({4 * hidden, hidden}, -most, most, 3)}};
  const auto wanted = reference::run(graph, inputs);
  for (const auto& [name, tensor] : run(graph, inputs, true))
    EXPECT_LE(distance(tensor, wanted.at(name)), kBound) << name;
}

}  // namespace
}  // namespace gyrus::test
