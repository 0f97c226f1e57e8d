// Sorting and neighbourhoods on a device against what is plainly so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/limits.h"
#include "gyrus/neighbours.h"
#include "gyrus/ops.h"
#include "gyrus/program.h"
#include "op_cases.h"
#include "support/device_tests.h"

namespace gyrus::test {
namespace {

std::vector<int64_t> in_order(const Tensor& line, bool descending) {
  std::vector<int64_t> order(static_cast<size_t>(line.size()));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending ? before(get(line, b), get(line, a)) : before(get(line, a), get(line, b));
  });
  return order;
}

TEST(Sort, KnowsInfinitiesZerosAndNaN) {
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(),
                       -std::numeric_limits<float>::quiet_NaN(),
                       INFINITY,
                       -INFINITY,
                       0.0f,
                       -0.0f,
                       1e-42f,
                       -1e-42f,
                       3.4e38f,
                       -3.4e38f,
                       1,
                       -1};
  for (const int64_t n : {40, 1300})
    for (const bool descending : {false, true}) {
      SCOPED_TRACE(cat(n, descending ? " descending" : ""));
      Tensor line(DType::F32, {n});
      for (int64_t i = 0; i < n; ++i) line.as<float>()[i] = odd[i * 7 % 12];
      Graph graph;
      const Sorted sorted = sort(graph.input("x", DType::F32, {n}), 0, descending);
      graph.output("order", sorted.positions);
      graph.output("values", sorted.values);
      const auto found = Program(device(), graph).run({{"x", line}}).outputs;
      const std::vector<int64_t> wanted = in_order(line, descending);
      for (int64_t i = 0; i < n; ++i) {
        const double value = get(line, wanted[static_cast<size_t>(i)]), got = get(found.at("values"), i);
        ASSERT_EQ(get(found.at("order"), i), wanted[static_cast<size_t>(i)]) << i;
        ASSERT_TRUE(got == value || (std::isnan(got) && std::isnan(value))) << i << ": " << got << ", not " << value;
      }
    }
}

TEST(Sort, MovesValuesByKeysAlongAnyAxis) {
  Graph graph;
  const Value keys = graph.input("keys", DType::U32, {600, 2}), values = graph.input("values", DType::F32, {600, 2});
  graph.output("y", sort_by(keys, values, 0));
  Tensor k(DType::U32, {600, 2}), v(DType::F32, {600, 2});
  for (int64_t i = 0; i < 1200; ++i) {
    set(k, i, static_cast<double>((i / 2 * 377 + i % 2) % 600) + 4e9);
    set(v, i, static_cast<double>(i));
  }
  const Tensor y = Program(device(), graph).run({{"keys", k}, {"values", v}}).outputs.at("y");
  for (int64_t i = 2; i < 1200; ++i) {
    const auto key = [&](int64_t at) { return (at / 2 * 377 + at % 2) % 600; };
    ASSERT_LT(key(static_cast<int64_t>(get(y, i - 2))), key(static_cast<int64_t>(get(y, i)))) << i;
  }
}

// Distances of every point to all others, in doubles, the nearest first; equal ones in the order of their indices.
std::vector<std::pair<double, int64_t>> nearest_of(const Tensor& points, int64_t p) {
  const int64_t n = points.shape[0], d = points.shape[1];
  const float* x = points.as<float>();
  std::vector<std::pair<double, int64_t>> all;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) {
      const double apart = double{x[i * d + c]} - double{x[p * d + c]};
      sum += apart * apart;
    }
    if (i != p) all.emplace_back(sum, i);
  }
  return all;
}

Tensor points_of(int64_t n, int64_t d, int64_t whole, Rng& rng) {
  Tensor points(DType::F32, {n, d});
  for (int64_t i = 0; i < points.size(); ++i)
    set(points, i, whole ? static_cast<double>(rng.integer(-whole, whole)) : rng.uniform(0, 1));
  return points;
}

struct Found {
  Tensor indices, distances;
};

Found find(const Tensor& points, int64_t k, const ProgramOptions& options) {
  Graph graph;
  const Neighbours near = nearest(graph.input("points", DType::F32, points.shape), k);
  graph.output("indices", near.indices);
  graph.output("distances", near.distances);
  RunResult result = Program(device(), graph, options).run({{"points", points}});
  return {result.outputs.at("indices"), result.outputs.at("distances")};
}

// On whole points indices are those of brute force, on others distances are as near as f32 says.
void check_nearest(int64_t n, int64_t whole, const ProgramOptions& options) {
  Rng rng(static_cast<uint64_t>(n));
  SCOPED_TRACE(cat(n, " points", whole ? ", whole" : ""));
  const int64_t k = std::min<int64_t>(n - 1, 15);
  const Tensor points = points_of(n, 3, whole, rng);
  const Found found = find(points, k, options);
  for (int64_t p = 0; p < n; p += std::max<int64_t>(1, n / 1024)) {
    auto wanted = nearest_of(points, p);
    std::partial_sort(wanted.begin(), wanted.begin() + k, wanted.end());
    for (int64_t i = 0; i < k; ++i) {
      const auto& [distance, index] = wanted[static_cast<size_t>(i)];
      if (whole) {
        ASSERT_EQ(get(found.indices, p * k + i), index) << p << " " << i;
      }
      ASSERT_NEAR(get(found.distances, p * k + i), distance, 1e-6) << p << " " << i;
    }
  }
}

TEST(Nearest, EqualsBruteForce) {
  for (const int64_t n : {2, 3, 5, 16, 63, 64, 65, 257, 1000, 2048, 4099, 8192})
    for (const int64_t whole : {9, 0}) check_nearest(n, whole, {});
  ProgramOptions tiny;
  tiny.limits = tiny_limits();
  check_nearest(1000, 2, tiny);
}

TEST(Nearest, RefusesMoreThanThereAre) {
  Graph graph;
  const Value points = graph.input("points", DType::F32, {8, 3});
  for (const int64_t k : {0, 8, 9}) {
    try {
      nearest(points, k);
      FAIL() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                cat("[nearest] k is ", k, ", but a point has 7 others to choose from: expected 1 to that many"));
    }
  }
  EXPECT_EQ(nearest(points, points, 8).indices.shape(), (Shape{8, 8}));
}

TEST(Nearest, TurnsPointsByCosine) {
  Rng rng(5);
  const Tensor points = points_of(200, 4, 0, rng);
  Graph graph;
  const Neighbours near = nearest(graph.input("points", DType::F32, points.shape), 3, Metric::Cosine);
  graph.output("indices", near.indices);
  graph.output("distances", near.distances);
  const RunResult result = Program(device(), graph).run({{"points", points}});
  const float* x = points.as<float>();
  for (int64_t i = 0; i < 600; ++i) {
    const float *a = x + i / 3 * 4, *b = x + static_cast<int64_t>(get(result.outputs.at("indices"), i)) * 4;
    const auto dot = [](const float* p, const float* q) { return std::inner_product(p, p + 4, q, 0.0); };
    EXPECT_NEAR(get(result.outputs.at("distances"), i), 1 - dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)), 1e-6);
  }
}

// Every pair of neighbours once: w + v - w v of what the two weigh for each other.
TEST(FuzzyGraph, WeightsAreUmaps) {
  Rng rng(3);
  constexpr int64_t kPoints = 150, k = 8;
  const Tensor points = points_of(kPoints, 3, 0, rng);
  Graph graph;
  const Neighbours near = nearest(graph.input("points", DType::F32, points.shape), k);
  const FuzzyGraph fuzzy = fuzzy_graph(near.indices, sqrt(near.distances));
  for (const auto& [name, value] : std::map<std::string, Value>{{"indices", near.indices},
                                                                {"distances", sqrt(near.distances)},
                                                                {"rho", fuzzy.rho},
                                                                {"sigma", fuzzy.sigma},
                                                                {"directed", fuzzy.directed},
                                                                {"weights", fuzzy.weights},
                                                                {"shares", fuzzy.shares}})
    graph.output(name, value);
  const auto out = Program(device(), graph).run({{"points", points}}).outputs;
  std::map<std::pair<int64_t, int64_t>, double> directed;
  double sum_of_shares = 0, sum_of_pairs = 0;
  for (int64_t p = 0; p < kPoints; ++p) {
    double sum = 0;
    for (int64_t i = p * k; i < (p + 1) * k; ++i) {
      const double w = std::exp(-(get(out.at("distances"), i) - get(out.at("rho"), p)) / get(out.at("sigma"), p));
      EXPECT_NEAR(get(out.at("directed"), i), w, 1e-5);
      sum += get(out.at("directed"), i);
      directed[{p, static_cast<int64_t>(get(out.at("indices"), i))}] = get(out.at("directed"), i);
      sum_of_shares += get(out.at("shares"), i);
    }
    EXPECT_NEAR(sum, std::log2(k + 1.0), 1e-5);
    EXPECT_EQ(get(out.at("rho"), p), get(out.at("distances"), p * k));
  }
  for (int64_t i = 0; i < kPoints * k; ++i) {
    const int64_t p = i / k, q = static_cast<int64_t>(get(out.at("indices"), i));
    const double w = directed.at({p, q}), v = directed.count({q, p}) ? directed.at({q, p}) : 0;
    EXPECT_NEAR(get(out.at("weights"), i), w + v - w * v, 1e-6);
    sum_of_pairs += p < q || v == 0 ? w + v - w * v : 0;
  }
  EXPECT_NEAR(sum_of_shares, sum_of_pairs, 1e-3);
}

}  // namespace
}  // namespace gyrus::test
