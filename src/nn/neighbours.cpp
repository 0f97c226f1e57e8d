#include "gyrus/neighbours.h"

#include "core/error.h"
#include "gyrus/ops.h"
#include "ops/building.h"

namespace gyrus {
namespace {

constexpr double kLeastSquare = 1e-30;  // of a length: a point of zeros stays zeros

Value of_length_one(Value x) {
  const Value squares = reduce_sum(square(x), {{-1}, true});
  return x * rsqrt(max(squares, scalar(x, kLeastSquare)));
}

Neighbours search(Value queries, Value points, int64_t k, Metric metric, bool skip_self) {
  if (!points || !queries) fail(ErrorCode::InvalidGraph, "nearest", "a value is missing");
  const bool cosine = metric == Metric::Cosine;
  if (cosine) points = of_length_one(points);
  queries = skip_self ? points : cosine ? of_length_one(queries) : queries;
  Node node;
  node.op = "nearest";
  node.inputs = {queries.id(), points.id()};
  node.attrs = {{"k", k}, {"metric", std::string(cosine ? "dot" : "euclid")}, {"skip_self", int64_t{skip_self}}};
  node.label = points.graph().label();
  const std::vector<ValueId> made = points.graph().add_node(std::move(node));
  return {{points.graph(), made[0]}, {points.graph(), made[1]}};
}

}  // namespace

Neighbours nearest(Value points, int64_t k, Metric metric) { return search(points, points, k, metric, true); }

Neighbours nearest(Value points, Value queries, int64_t k, Metric metric) {
  return search(queries, points, k, metric, false);
}

FuzzyGraph fuzzy_graph(Value indices, Value distances) {
  if (!indices || !distances) fail(ErrorCode::InvalidGraph, "fuzzy_graph", "a value is missing");
  if (indices.shape() != distances.shape() || indices.dtype() != DType::I32)
    fail(ErrorCode::InvalidGraph, "fuzzy_graph", "indices are ", to_string(indices.dtype()), to_string(indices.shape()),
         " for distances ", to_string(distances.shape()), ": expected i32 of the same shape");
  Graph& graph = distances.graph();
  Node node;
  node.op = "fuzzy_weights";
  node.inputs = {distances.id()};
  node.label = graph.label();
  const std::vector<ValueId> made = graph.add_node(std::move(node));
  FuzzyGraph fuzzy{{graph, made[0]}, {graph, made[1]}, {graph, made[2]}, {}, {}};
  const int64_t n = distances.shape()[0], k = distances.shape()[1];
  // What neighbour a of point i has for i: its place in the neighbour's list, if it is there.
  const Value lists = reshape(gather(indices, indices), {n, k, k});
  const Value back = equal(lists, reshape(counted(graph, n), {n, 1, 1}));
  const Value given = reshape(gather(fuzzy.directed, indices), {n, k, k});
  const Value reverse = reduce_sum(where(back, given, scalar(given, 0)), {{2}});
  const Value mutual = reduce_sum(where(back, scalar(given, 1), scalar(given, 0)), {{2}});
  fuzzy.weights = fuzzy.directed + reverse - fuzzy.directed * reverse;
  fuzzy.shares = fuzzy.weights * (1.0 - 0.5 * mutual);
  return fuzzy;
}

}  // namespace gyrus
