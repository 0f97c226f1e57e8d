#include "op_cases_build.h"

#include <cmath>

namespace gyrus::test {

ValueId CaseBuilder::weight(const Shape& shape) {
  if (case_.fill == Fill::Whole) return constant(shape);
  Tensor tensor(DType::F32, shape);
  const double fan_in = static_cast<double>(tensor.size()) / static_cast<double>(shape[0]);
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, rng_.normal() / std::sqrt(fan_in));
  return graph.add_constant("c" + std::to_string(constants_++), std::move(tensor));
}

ValueId CaseBuilder::positive(const Shape& shape) {
  Tensor tensor(DType::F32, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) set(tensor, i, rng_.uniform(0.25, 2));
  return graph.add_constant("c" + std::to_string(constants_++), std::move(tensor));
}

OpCase make_case(OpCase c, std::function<void(CaseBuilder&)> make) {
  const OpCase fixed = c;  // its own copy for the builder: the table may move the case
  c.build = [fixed, make = std::move(make)](Rng& rng) {
    CaseBuilder builder(fixed, rng);
    make(builder);
    return builder.graph;
  };
  return c;
}

Node step(const std::string& op, std::vector<ValueId> inputs, Attrs attrs) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  return node;
}

}  // namespace gyrus::test
