#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/fused.h"
#include "passes/fusible.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

// The node of the new graph behind whose result `node` can run, or null.
const Node* host_of(Rewriter& rewrite, const Node& node) {
  if (node.inputs.size() != 1 || rewrite.uses(node.inputs[0]) != 1 || !is_fusible(rewrite.old(), node)) return nullptr;
  const Node* host = rewrite.maker(rewrite(node.inputs[0]));
  if (!host || !host->results.empty()) return nullptr;
  const OpDef& def = op(host->op);
  const bool takes = def.takes_body && !def.body_only && def.takes_body(*host);
  return takes && host->body.size() + body_of(node).size() <= kMaxBodySteps ? host : nullptr;
}

}  // namespace

Graph fuse_epilogues(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    const Node* host = host_of(rewrite, node);
    if (!host) {
      rewrite.copy(node);
      continue;
    }
    Node fused = *host;
    const size_t values = body_operands(fused) + fused.body.size();
    const size_t last = fused.body.empty() ? 0 : values - 1;
    for (Node step : body_of(node)) {
      for (ValueId& id : step.inputs) id = static_cast<ValueId>(id == 0 ? last : values + id - 1);
      fused.body.push_back(std::move(step));
    }
    rewrite.add_for(node.outputs, std::move(fused));
  }
  return rewrite.finish("fuse_epilogues");
}

}  // namespace gyrus
