#include "graph/op.h"
#include "graph/rewriter.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

// The value of the op that the node ends in parts, or kNoValue.
ValueId found(Rewriter& rewrite, const Node& node) {
  for (const OpDef* def : all_ops()) {
    const ValueId value = def->from_parts ? def->from_parts(rewrite, node) : kNoValue;
    if (value != kNoValue) return value;
  }
  return kNoValue;
}

}  // namespace

Graph find_composites(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    const ValueId value = found(rewrite, node);
    if (value == kNoValue) {
      rewrite.copy(node);
      continue;
    }
    rewrite.graph().set_name(value, graph.value(node.outputs[0]).name);
    rewrite.replace(node.outputs[0], value);
  }
  return rewrite.finish("find_composites");
}

}  // namespace gyrus
