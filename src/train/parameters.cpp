#include "train/parameters.h"

#include <set>

#include "graph/rewriter.h"

namespace gyrus {
namespace {

// Mean and variance of batch_norm are measured, not trained.
std::set<ValueId> measured(const Graph& graph) {
  std::set<ValueId> found;
  for (const Node& node : graph.nodes())
    if (node.op == "batch_norm") found.insert({node.inputs.at(1), node.inputs.at(2)});
  return found;
}

}  // namespace

Graph with_parameters(const Graph& graph) {
  const std::set<ValueId> kept = measured(graph);
  Rewriter rewrite(graph);
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const ValueInfo& value = graph.value(id);
    if (!value.constant || value.name.empty() || value.type.dtype != DType::F32 || kept.count(id) != 0) continue;
    rewrite.replace(id, rewrite.graph().add_state(value.name, value.type, value.constant));
  }
  for (const Node& node : graph.nodes()) rewrite.copy(node);
  return rewrite.finish("parameters");
}

}  // namespace gyrus
