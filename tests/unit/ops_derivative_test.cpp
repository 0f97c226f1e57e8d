#include <algorithm>
#include <cmath>

#include "ops/fused.h"
#include "ops_support.h"

namespace gyrus::test {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

// The gradients of all operands at one point, by the derivative's own steps.
std::vector<double> slopes(const std::string& op, const std::vector<double>& x, const Attrs& attrs, double g = 1) {
  Derivative derivative = derivative_of(make_node(op, attrs), std::vector<bool>(x.size(), true));
  std::vector<double> given = x, operands, found;
  given.push_back(at(op, x, attrs));
  given.push_back(g);
  for (size_t k : derivative.operands) operands.push_back(given[k]);
  derivative.node.inputs.resize(operands.size());
  const std::vector<double> made =
      derivative.node.results.empty() ? std::vector<double>{} : eval_body(derivative.node, operands);
  for (size_t result : derivative.results)
    found.push_back(result == Derivative::kPassed ? g : result == Derivative::kNone ? 0 : made.at(result));
  return found;
}

double difference(const std::string& op, std::vector<double> x, size_t k, const Attrs& attrs) {
  const double h = 1e-5 * std::max(1.0, std::abs(x[k]));
  const auto value = [&](double shift) {
    std::vector<double> moved = x;
    moved[k] += shift;
    return at(op, moved, attrs);
  };
  return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
}

// Where a row is smooth; functions of positive numbers start above 0.
std::vector<double> points_of(const Elementwise& row) {
  const bool positive = row.name == "log" || row.name == "sqrt" || row.name == "rsqrt" || row.name == "pow";
  if (positive) return {0.05, 0.7, 1.3, 9};
  if (row.name == "acosh") return {1.05, 1.3, 9};
  if (row.name == "asin" || row.name == "acos" || row.name == "atanh") return {-0.9, -0.3, 0.02, 0.7};
  if (row.name == "log1p") return {-0.6, -0.01, 0.02, 1.9, 6};
  if (row.name == "mod" || row.name == "fmod") return {-7.7, -2.3, 0.9, 1.9};
  return {-7.6, -2.25, -0.6, -0.01, 0.02, 0.8, 1.9, 6.2};
}

std::vector<Attrs> attrs_of(const Elementwise& row) {
  if (row.name == "cast") return {{{"to", "f32"}}};
  if (row.name == "gelu") return {{}, {{"approximate", "tanh"}}};
  if (row.name == "affine_clamp") return {{}, {{"scale", 0.5}, {"shift", 0.25}, {"lo", -1.0}, {"hi", 2.0}}};
  std::vector<Attrs> all(1);
  if (!row.attrs.empty()) {
    all.emplace_back();
    for (size_t i = 0; i < row.attrs.size(); ++i)
      all.back().set(std::string(row.attrs[i].name), 0.3 + 0.4 * static_cast<double>(i));
  }
  return all;
}

void check_slopes(const Elementwise& row, const std::vector<double>& x, const Attrs& attrs) {
  const std::string op(row.name);
  const std::vector<double> found = slopes(op, x, attrs, 1.5);
  ASSERT_EQ(found.size(), row.arity);
  for (size_t k = 0; k < row.arity; ++k) {
    const double wanted = row.name == "cast" ? 1 : row.name == "detach" ? 0 : difference(op, x, k, attrs);
    // Differences of doubles at this step keep some ten digits.
    EXPECT_NEAR(found[k], 1.5 * wanted, 1e-8 * std::max(1.0, std::abs(wanted))) << "operand " << k << " at " << x[0];
  }
}

TEST(Derivative, OfEveryRowEqualsDifferences) {
  for (const Elementwise& row : elementwise_rows()) {
    SCOPED_TRACE(std::string(row.name));
    if (!row.derivative) {
      EXPECT_TRUE(row.gives == Gives::Truth || row.gives == Gives::Word || row.domain == Domain::Integers ||
                  row.chooses);
      continue;
    }
    for (const Attrs& attrs : attrs_of(row))
      for (const double a : points_of(row)) {
        if (row.arity == 1) check_slopes(row, {a}, attrs);
        for (const double b : {-1.7, 0.4, 2.5})
          if (row.arity == 2) check_slopes(row, {a, b}, attrs);
      }
  }
}

TEST(Derivative, FollowsItsConventionsAtCorners) {
  EXPECT_THAT(slopes("relu", {0}, {}), ElementsAre(0));
  EXPECT_THAT(slopes("leaky_relu", {0}, {}), ElementsAre(0.01));
  EXPECT_THAT(slopes("elu", {0}, {{"alpha", 0.5}}), ElementsAre(0.5));
  EXPECT_THAT(slopes("abs", {0}, {}), ElementsAre(0));
  EXPECT_THAT(slopes("min", {2, 2}, {}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(slopes("max", {2, 2}, {}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(slopes("affine_clamp", {1}, {{"scale", 2.0}, {"lo", 0.0}, {"hi", 2.0}}), ElementsAre(2));
  EXPECT_THAT(slopes("pow", {0, 0}, {}), ElementsAre(0, 0));
  EXPECT_THAT(slopes("pow", {0, 2}, {}), ElementsAre(0, 0));
  EXPECT_THAT(slopes("pow", {-2, 2}, {})[0], DoubleEq(-4));
}

TEST(Derivative, IsANodeOfTheShapeOfTheResult) {
  Graph graph;
  const ValueId a = graph.add_input("a", f32({4, 1})), b = graph.add_input("b", f32({3}));
  const ValueId y = graph.add("div", {a, b});
  const Derivative derivative = derivative_of(graph.nodes().back(), {true, true});
  const std::vector<ValueId> given = {a, b, y, graph.add_input("g", f32({4, 3}))};
  Node node = derivative.node;
  for (size_t k : derivative.operands) node.inputs.push_back(given.at(k));
  const std::vector<ValueId> gradients = graph.add_node(node);
  ASSERT_EQ(gradients.size(), 2u);
  for (ValueId id : gradients) EXPECT_EQ(graph.type(id), f32({4, 3}));
  EXPECT_THROW(derivative_of(make_node("conv"), {true, true}), Error);
}

}  // namespace
}  // namespace gyrus::test
