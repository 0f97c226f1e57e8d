#include "graph/op.h"
#include "graph/rewriter.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

// The node that makes the scores and picks the largest channel at once, or nothing.
std::optional<Node> joined(Rewriter& rewrite, const Node& node) {
  const OpDef& def = op(node.op);
  if (!def.picks_largest || rewrite.uses(node.inputs[0]) != 1) return {};
  const Node* maker = rewrite.old_maker(node.inputs[0]);
  if (!maker || !op(maker->op).with_argmax) return {};
  const std::optional<Pick> pick = def.picks_largest(node, rewrite.old().type(node.inputs[0]).shape);
  if (!pick || pick->axis != 1 || pick->keepdims) return {};
  return op(maker->op).with_argmax(rewrite.old(), *maker, pick->dtype);
}

}  // namespace

Graph fuse_argmax(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    if (const std::optional<Node> both = joined(rewrite, node))
      rewrite.add_for(node.outputs, rewrite.mapped(*both));
    else
      rewrite.copy(node);
  }
  return rewrite.finish("fuse_argmax");
}

}  // namespace gyrus
