#include "ops/neighbours.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gyrus/neighbours.h"
#include "ops/building.h"
#include "ops/common.h"

namespace gyrus {
namespace {

bool is_dot(const Node& node) {
  const std::string metric = node.attrs.text("metric", "euclid");
  if (metric != "euclid" && metric != "dot")
    fail(ErrorCode::InvalidGraph, node.op, "metric is '", metric, "', expected 'euclid' or 'dot'");
  return metric == "dot";
}

std::vector<TensorType> infer_nearest(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {"k", "metric", "skip_self"});
  const Shape &queries = inputs[0].shape, &points = inputs[1].shape;
  is_dot(node);
  if (inputs[0].dtype != DType::F32 || inputs[1].dtype != DType::F32 || queries.size() != 2 || points.size() != 2 ||
      queries[1] != points[1])
    fail(ErrorCode::InvalidGraph, node.op, "operands are ", to_string(inputs[0].dtype), to_string(queries), " and ",
         to_string(inputs[1].dtype), to_string(points), ", expected f32 [m, d] and f32 [n, d]");
  const bool self = flag(node, "skip_self");
  if (self && queries[0] != points[0])
    fail(ErrorCode::InvalidGraph, node.op, queries[0], " queries that are the ", points[0], " points themselves");
  const int64_t k = node.attrs.integer("k"), most = points[0] - (self ? 1 : 0);
  if (k < 1 || k > most)
    fail(ErrorCode::InvalidGraph, node.op, "k is ", k, ", but a point has ", std::max<int64_t>(most, 0),
         " others to choose from: expected 1 to that many");
  return {{DType::I32, {queries[0], k}, Layout::Plain}, {DType::F32, {queries[0], k}, Layout::Plain}};
}

void reference_nearest(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &queries = *inputs[0], &points = *inputs[1];
  const auto n = static_cast<size_t>(points.shape[0]), d = static_cast<size_t>(points.shape[1]);
  const auto k = static_cast<size_t>(node.attrs.integer("k"));
  const bool dot = is_dot(node), self = flag(node, "skip_self");
  std::vector<double> distances(n);
  for (size_t q = 0; q < static_cast<size_t>(queries.shape[0]); ++q) {
    for (size_t p = 0; p < n; ++p) {
      double sum = dot ? 1 : 0;
      for (size_t c = 0; c < d; ++c) {
        const double a = queries.data[q * d + c], b = points.data[p * d + c];
        sum += dot ? -a * b : (a - b) * (a - b);
      }
      distances[p] = sum;
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    if (self) order.erase(order.begin() + static_cast<std::ptrdiff_t>(q));
    std::partial_sort(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
        [&](size_t a, size_t b) { return distances[a] < distances[b] || (distances[a] == distances[b] && a < b); });
    for (size_t i = 0; i < k; ++i) {
      outputs[0].data[q * k + i] = static_cast<double>(order[i]);
      outputs[1].data[q * k + i] = distances[order[i]];
    }
  }
}

double flops_nearest(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 3.0 * static_cast<double>(element_count(inputs[0].shape)) * static_cast<double>(inputs[1].shape[0]);
}

// Rows that stand for the same point are added up in the order of the queries.
Value sums_of_points(Value rows, Value indices, int64_t points) {
  const int64_t count = element_count(indices.shape());
  const Sorted sorted = sort(reshape(indices, {count}));
  const Value ends = search_sorted(sorted.values, counted(rows.graph(), points), true);
  return apply("segment_sum", {rows, ends, sorted.positions});
}

std::vector<Value> gradient_nearest(const Backward& back) {
  if (!back.gradients[1]) return {{}, {}};
  const Value queries = back.inputs[0], points = back.inputs[1], indices = back.outputs[0];
  const int64_t m = queries.shape()[0], d = queries.shape()[1], k = indices.shape()[1];
  if (m == 0 || d == 0) return {zeros(queries, queries.shape()), zeros(points, points.shape())};
  const bool dot = is_dot(back.node);
  const Value g = reshape(back.gradients[1], {m, k, 1}), near = gather(points, indices);
  const Value own = expand(reshape(queries, {m, 1, d}), {m, k, d});
  const Value apart = (own - near) * g * 2.0;
  const Value to_queries = reduce_sum(dot ? -(near * g) : apart, {{1}});
  const Value to_points = dot ? -(own * g) : -apart;
  return {to_queries, sums_of_points(reshape(to_points, {m * k, d}), indices, points.shape()[0])};
}

std::vector<TensorType> infer_fuzzy(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {});
  const Shape& shape = inputs[0].shape;
  if (inputs[0].dtype != DType::F32 || shape.size() != 2 || shape[1] < 1)
    fail(ErrorCode::InvalidGraph, node.op, "distances are ", to_string(inputs[0].dtype), to_string(shape),
         ", expected f32 [n, k] with a k of at least 1");
  const TensorType each{DType::F32, {shape[0]}, Layout::Plain};
  return {each, each, {DType::F32, shape, Layout::Plain}};
}

// What the weights of a row sum up to.
double weight_sum(const double* row, int64_t k, double rho, double sigma) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += row[i] > rho ? std::exp(-(row[i] - rho) / sigma) : 1;
  return sum;
}

void reference_fuzzy(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const int64_t n = inputs[0]->shape[0], k = inputs[0]->shape[1];
  const double wanted = std::log2(static_cast<double>(k + 1));
  for (int64_t p = 0; p < n; ++p) {
    const double* row = inputs[0]->data.data() + p * k;
    const double* positive = std::find_if(row, row + k, [](double d) { return d > 0; });
    const double rho = positive == row + k ? 0 : *positive;
    double low = 0, high = INFINITY, sigma = 1;
    for (int step = 0; step < 64; ++step) {
      const double sum = weight_sum(row, k, rho, sigma);
      if (sum == wanted) break;
      (sum > wanted ? high : low) = sigma;
      sigma = high == INFINITY ? sigma * 2 : (low + high) / 2;
    }
    sigma = std::max(sigma, 1e-3 * std::accumulate(row, row + k, 0.0) / static_cast<double>(k + 1));
    outputs[0].data[static_cast<size_t>(p)] = rho;
    outputs[1].data[static_cast<size_t>(p)] = sigma;
    for (int64_t i = 0; i < k; ++i)
      outputs[2].data[static_cast<size_t>(p * k + i)] = row[i] > rho ? std::exp(-(row[i] - rho) / sigma) : 1;
  }
}

// sigma follows the distances such that the sum of the weights stands; where it is held at its least, it stands itself.
std::vector<Value> gradient_fuzzy(const Backward& back) {
  const Value distances = back.inputs[0];
  const int64_t n = distances.shape()[0], k = distances.shape()[1];
  const Value rho = reshape(back.outputs[0], {n, 1}), sigma = reshape(back.outputs[1], {n, 1});
  const Value zero = scalar(distances, 0), farther = greater(distances, rho);
  const auto sum = [](Value x) { return reduce_sum(x, {{1}, true}); };
  const Value weights = where(farther, back.outputs[2], zero), beyond = where(farther, distances - rho, zero);
  Value g = zeros(distances, {n, k}), by_sigma = zeros(distances, {n, 1}), by_rho = by_sigma;
  if (back.gradients[2]) {
    const Value by_weight = back.gradients[2] * weights;
    g = -by_weight / sigma;
    by_sigma = sum(by_weight * beyond) / square(sigma);
  }
  if (back.gradients[1]) by_sigma = by_sigma + reshape(back.gradients[1], {n, 1});
  if (back.gradients[0]) by_rho = reshape(back.gradients[0], {n, 1});
  const Value least = sum(distances) * (1.000001e-3 / static_cast<double>(k + 1)), moments = sum(weights * beyond);
  const Value moves = logical_and(greater(sigma, least), greater(moments, zero));
  const Value share = where(moves, by_sigma * sigma / where(moves, moments, scalar(moments, 1)), zero);
  g = g + share * weights;
  const Value nearest = cast(equal(distances, rho), DType::F32);
  return {g + (by_rho - sum(g)) * nearest / max(sum(nearest), scalar(nearest, 1))};
}

}  // namespace

const OpDef kNearest = {
    .name = "nearest",
    .infer = infer_nearest,
    .reference = reference_nearest,
    .gradient = gradient_nearest,
    .flops = flops_nearest,
};

const OpDef kFuzzyWeights = {
    .name = "fuzzy_weights",
    .infer = infer_fuzzy,
    .reference = reference_fuzzy,
    .gradient = gradient_fuzzy,
    .flops = element_flops,
};

}  // namespace gyrus
