#include "graph/op.h"
#include "graph/rewriter.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

// The largest element stands where it stood before an op that keeps the order along that axis (a softmax), so that op
// need not be computed.
const Node* needless_maker(const Rewriter& rewrite, const Node& node) {
  const OpDef& def = op(node.op);
  const Node* maker = node.inputs.empty() ? nullptr : rewrite.old_maker(node.inputs[0]);
  if (!def.picks_largest || !maker || !op(maker->op).keeps_order) return nullptr;
  const Shape& shape = rewrite.old().type(node.inputs[0]).shape;
  const std::optional<Pick> pick = def.picks_largest(node, shape);
  return pick && op(maker->op).keeps_order(*maker, shape) == pick->axis ? maker : nullptr;
}

bool decompose_once(const Graph& graph, Graph& result) {
  Rewriter rewrite(graph);
  bool changed = false;
  for (const Node& node : graph.nodes()) {
    const OpDef& def = op(node.op);
    if (const Node* maker = needless_maker(rewrite, node)) {
      Node direct = node;
      direct.inputs[0] = maker->inputs[0];
      rewrite.copy(direct);
    } else if (def.decompose && !def.has_kernel) {
      rewrite.take_apart(node);
    } else {
      rewrite.copy(node);
      continue;
    }
    changed = true;
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
