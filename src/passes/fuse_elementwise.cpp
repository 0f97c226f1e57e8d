#include <algorithm>

#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/fused.h"
#include "passes/fusible.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

// With the result and the error word as many bindings as every WebGPU device has; the planner splits what needs more
// than a target has.
constexpr size_t kMaxFusedOperands = 6;

// Puts node `inner`, which makes operand `k` of `outer`, inside `outer`.
Node merge(const Node& inner, const Node& outer, size_t k) {
  Node merged;
  merged.op = "fused";
  merged.label = outer.label;
  merged.inputs = inner.inputs;
  const auto operand = [&](ValueId id) {
    const auto found = std::find(merged.inputs.begin(), merged.inputs.end(), id);
    if (found != merged.inputs.end()) return static_cast<size_t>(found - merged.inputs.begin());
    merged.inputs.push_back(id);
    return merged.inputs.size() - 1;
  };
  std::vector<size_t> outer_operands(outer.inputs.size());
  for (size_t i = 0; i < outer.inputs.size(); ++i)
    if (i != k) outer_operands[i] = operand(outer.inputs[i]);
  const size_t operands = merged.inputs.size();
  const std::vector<Node> first = body_of(inner);
  const std::vector<Node> second = body_of(outer);
  for (const Node& step : first) {
    merged.body.push_back(step);
    for (ValueId& id : merged.body.back().inputs)
      if (id >= inner.inputs.size()) id = static_cast<ValueId>(id - inner.inputs.size() + operands);
  }
  const size_t inner_result = operands + first.size() - 1;
  for (const Node& step : second) {
    merged.body.push_back(step);
    for (ValueId& id : merged.body.back().inputs) {
      if (id >= outer.inputs.size())
        id = static_cast<ValueId>(id - outer.inputs.size() + operands + first.size());
      else
        id = static_cast<ValueId>(id == k ? inner_result : outer_operands[id]);
    }
  }
  return merged;
}

}  // namespace

bool is_fusible(const Graph& graph, const Node& node) {
  const OpDef& def = op(node.op);
  const auto floats = [&](ValueId id) {
    const TensorType& type = graph.type(id);
    return is_float(type.dtype) || (is_indexed(node) && type.dtype == DType::I32 && type.shape.empty());
  };
  return (def.elementwise || def.body_only) && def.dtype_attr.empty() && node.results.empty() &&
         std::all_of(node.inputs.begin(), node.inputs.end(), floats) && is_float(graph.type(node.outputs[0]).dtype);
}

Graph fuse_elementwise(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (!is_fusible(graph, node)) {
      rewrite.copy(node);
      continue;
    }
    Node current = rewrite.mapped(node);
    for (ValueId input : node.inputs) {
      const Node* inner = rewrite.maker(rewrite(input));
      const bool same_shape = graph.type(input).shape == graph.type(node.outputs[0]).shape;
      if (!inner || rewrite.uses(input) != 1 || !same_shape || !is_fusible(rewrite.graph(), *inner)) continue;
      const auto at = std::find(current.inputs.begin(), current.inputs.end(), inner->outputs[0]);
      if (at == current.inputs.end()) continue;
      Node merged = merge(*inner, current, static_cast<size_t>(at - current.inputs.begin()));
      if (merged.inputs.size() <= kMaxFusedOperands && merged.body.size() <= kMaxBodySteps) current = std::move(merged);
    }
    rewrite.add_for(node.outputs, std::move(current));
  }
  return rewrite.finish("fuse_elementwise");
}

}  // namespace gyrus
