#include "ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/rows.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"axis"});
  expect_float(node, inputs[0], "input");
  checked_axis(node, node.attrs.integer("axis"), inputs[0].shape.size());
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor& x = *inputs[0];
  if (x.data.empty()) return;
  const size_t axis = checked_axis(node, node.attrs.integer("axis"), x.shape.size());
  const int64_t extent = x.shape[axis];
  const int64_t inner = strides_of(x.shape)[axis];
  const int64_t outer = element_count(x.shape) / (extent * inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t first = o * extent * inner + i;
      const auto at = [&](int64_t k) { return static_cast<size_t>(first + k * inner); };
      double largest = x.data[at(0)], sum = 0;
      for (int64_t k = 1; k < extent; ++k) largest = std::max(largest, x.data[at(k)]);
      for (int64_t k = 0; k < extent; ++k) sum += std::exp(x.data[at(k)] - largest);
      for (int64_t k = 0; k < extent; ++k) outputs[0].data[at(k)] = std::exp(x.data[at(k)] - largest) / sum;
    }
}

double flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 5.0 * static_cast<double>(element_count(inputs[0].shape));
}

std::vector<ValueId> decompose(Graph& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  if (element_count(graph.type(x).shape) == 0) return {x};
  const int64_t axis = node.attrs.integer("axis");
  const Shape& shape = graph.type(x).shape;
  if (checked_axis(node, axis, shape.size()) + 1 == shape.size()) {
    const ValueId rows = add_rows(graph, node, x, shape.back(), "softmax");
    if (rows != kNoValue) return {rows};
  }
  const Attrs along{{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}};
  const ValueId largest = graph.add("reduce_max", {x}, along, node.label);
  const ValueId shifted = graph.add("sub", {x, largest}, {}, node.label);
  const ValueId powers = graph.add("exp", {shifted}, {}, node.label);
  const ValueId sum = graph.add("reduce_sum", {powers}, along, node.label);
  return {graph.add("div", {powers, sum}, {}, node.label)};
}

}  // namespace

const OpDef kSoftmax = {
    .name = "softmax",
    .infer = infer,
    .reference = reference,
    .keeps_order = [](const Node& node, const Shape& input) -> std::optional<size_t> {
      return checked_axis(node, node.attrs.integer("axis"), input.size());
    },
    .decompose = decompose,
    .flops = flops,
};

}  // namespace gyrus
