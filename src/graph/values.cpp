// What gyrus/ops.h is written with.

#include "core/error.h"
#include "graph/graph.h"
#include "gyrus/ops.h"

namespace gyrus {

DType Value::dtype() const { return graph_->type(id_).dtype; }
Shape Value::shape() const { return graph_->type(id_).shape; }

Value apply(const std::string& op, const std::vector<Value>& operands, Attrs attrs) {
  Graph* graph = nullptr;
  std::vector<ValueId> ids;
  for (const Value& operand : operands) {
    if (operand && graph && &operand.graph() != graph)
      fail(ErrorCode::InvalidGraph, op, "its operands belong to two graphs");
    if (operand) graph = &operand.graph();
    ids.push_back(operand.id());
  }
  if (!graph) fail(ErrorCode::InvalidGraph, op, "has no operand");
  while (ids.back() == kNoValue) ids.pop_back();
  return {*graph, graph->add(op, ids, std::move(attrs))};
}

Value scalar(Value like, double value) {
  if (!like) fail(ErrorCode::InvalidGraph, "scalar", "a value is missing");
  Tensor tensor(like.dtype(), Shape{});
  set(tensor, 0, value);
  return like.graph().constant(std::move(tensor));
}

Value reduce(const std::string& op, Value x, const Reduce& over) {
  Attrs attrs{{"keepdims", int64_t{over.keepdims}}};
  if (!over.axes.empty()) attrs.set("axes", over.axes);
  return apply(op, {x}, std::move(attrs));
}

TopK top_k(Value x, int64_t k, int64_t axis, bool largest) {
  if (!x) fail(ErrorCode::InvalidGraph, "top_k", "has no operand");
  Node node;
  node.op = "top_k";
  node.inputs = {x.id()};
  node.attrs = {{"axis", axis}, {"k", k}, {"largest", int64_t{largest}}};
  const std::vector<ValueId> made = x.graph().add_node(std::move(node));
  return {{x.graph(), made[0]}, {x.graph(), made[1]}};
}

Value conv(Value x, Value weight, const ConvOptions& options) {
  Attrs attrs{{"groups", options.groups}};
  if (!options.stride.empty()) attrs.set("stride", options.stride);
  if (!options.dilation.empty()) attrs.set("dilation", options.dilation);
  if (!options.pads.empty()) attrs.set("pads", options.pads);
  return apply("conv", {x, weight, options.bias}, std::move(attrs));
}

}  // namespace gyrus
