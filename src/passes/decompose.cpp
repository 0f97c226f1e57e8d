#include "graph/op.h"
#include "passes/passes.h"
#include "graph/rewriter.h"

namespace gyrus {
namespace {

// An argmax does not change under softmax over the same axis, so the softmax need not be computed.
bool is_softmax_under_argmax(const Graph& graph, const Node& argmax, const Node& softmax) {
  const int64_t rank = static_cast<int64_t>(graph.type(softmax.outputs[0]).shape.size());
  const auto axis = [rank](const Node& node) { return (node.attrs.integer("axis") + rank) % rank; };
  return argmax.op == "argmax" && softmax.op == "softmax" && axis(argmax) == axis(softmax);
}

bool decompose_once(const Graph& graph, Graph& result) {
  Rewriter rewrite(graph);
  const std::vector<int64_t> made_by = producers(graph);
  bool changed = false;
  for (const Node& node : graph.nodes()) {
    const OpDef& def = op(node.op);
    const int64_t before = node.inputs.empty() ? -1 : made_by[node.inputs[0]];
    if (before >= 0 && is_softmax_under_argmax(graph, node, graph.nodes()[before])) {
      Node direct = node;
      direct.inputs[0] = graph.nodes()[before].inputs[0];
      rewrite.copy(direct);
      changed = true;
    } else if (def.decompose) {
      Node mapped = node;
      mapped.inputs = rewrite(node.inputs);
      rewrite.replace(node.outputs[0], def.decompose(rewrite.graph(), mapped));
      changed = true;
    } else {
      rewrite.copy(node);
    }
  }
  result = rewrite.finish("decompose");
  return changed;
}

}  // namespace

Graph decompose(const Graph& graph) {
  Graph current = graph;
  Graph next;
  while (decompose_once(current, next)) current = next;
  return next;
}

}  // namespace gyrus
