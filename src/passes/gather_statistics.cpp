#include <map>

#include "graph/op.h"
#include "graph/rewriter.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

// The node whose result the statistics are of and that can give them itself, or null.
const Node* giver(const Rewriter& rewrite, const Node& node) {
  if (!op(node.op).gives_statistics) return nullptr;
  const Node* maker = rewrite.old_maker(node.inputs[0]);
  if (!maker || maker->outputs[0] != node.inputs[0] || !op(maker->op).with_statistics) return nullptr;
  return op(maker->op).with_statistics(rewrite.old(), *maker) ? maker : nullptr;
}

}  // namespace

Graph gather_statistics(const Graph& graph) {
  Rewriter rewrite(graph);
  std::map<const Node*, ValueId> statistics;  // of the nodes that give them: the new value
  for (const Node& node : graph.nodes())
    if (const Node* maker = giver(rewrite, node)) statistics[maker] = kNoValue;
  for (const Node& node : graph.nodes()) {
    if (const Node* maker = giver(rewrite, node)) {
      rewrite.replace(node.outputs[0], statistics.at(maker));
    } else if (statistics.count(&node)) {
      const std::optional<Node> joined = op(node.op).with_statistics(rewrite.graph(), rewrite.mapped(node));
      statistics[&node] = rewrite.add_for(node.outputs, *joined).back();
    } else {
      rewrite.copy(node);
    }
  }
  return rewrite.finish("gather_statistics");
}

}  // namespace gyrus
