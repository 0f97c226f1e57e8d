#include <algorithm>

#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/evaluate.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

void fold_node(Rewriter& rewrite, const Node& node) {
  const Graph& graph = rewrite.old();
  std::vector<const Tensor*> inputs;
  for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : &rewrite.graph().constant(rewrite(id)));
  std::vector<TensorType> types;
  for (ValueId id : node.outputs) types.push_back(graph.type(id));
  std::vector<Tensor> results = evaluate(node, inputs, types);
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueId id = node.outputs[i];
    rewrite.replace(id, rewrite.graph().add_constant(graph.value(id).name, std::move(results[i])));
  }
}

}  // namespace

Graph fold_constants(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    const bool constant = !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id == kNoValue || rewrite.graph().is_constant(rewrite(id));
    });
    if (constant)
      fold_node(rewrite, node);
    else
      rewrite.copy(node);
  }
  return rewrite.finish("fold_constants");
}

}  // namespace gyrus
