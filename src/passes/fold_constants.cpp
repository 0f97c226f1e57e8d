#include <algorithm>
#include <map>
#include <numeric>

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

// The constant with its last two axes the other way round.
ValueId turned(Graph& graph, ValueId id) {
  Node transpose;
  transpose.op = "transpose";
  TensorType type = graph.type(id);
  std::vector<int64_t> perm(type.shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm.end()[-1], perm.end()[-2]);
  std::swap(type.shape.end()[-1], type.shape.end()[-2]);
  transpose.attrs.set("perm", perm);
  // Others may read it as it was.
  const std::string name = graph.value(id).name;
  return graph.add_constant(name.empty() ? name : name + " turned",
                            evaluate(transpose, {&graph.constant(id)}, {type})[0]);
}

// Constants that an op would read the other way round are laid down so, once for all who read them.
void copy_turned(Rewriter& rewrite, const Node& node, std::map<ValueId, ValueId>& known) {
  Node copy = rewrite.mapped(node);
  Graph& graph = rewrite.graph();
  const auto& attrs = op(node.op).transposes;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i].empty() || i >= copy.inputs.size() || copy.inputs[i] == kNoValue) continue;
    ValueId& id = copy.inputs[i];
    const std::string attr(attrs[i]);
    if (!graph.is_constant(id) || copy.attrs.integer(attr, 0) == 0 || graph.type(id).shape.size() < 2) continue;
    const auto [at, fresh] = known.try_emplace(id, kNoValue);
    if (fresh) at->second = turned(graph, id);
    id = at->second;
    copy.attrs.set(attr, int64_t{0});
  }
  rewrite.add(node, std::move(copy));
}

}  // namespace

Graph fold_constants(const Graph& graph) {
  Rewriter rewrite(graph);
  std::map<ValueId, ValueId> known;
  for (const Node& node : graph.nodes()) {
    const bool constant = !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id == kNoValue || rewrite.graph().is_constant(rewrite(id));
    });
    if (constant)
      fold_node(rewrite, node);
    else
      copy_turned(rewrite, node, known);
  }
  return rewrite.finish("fold_constants");
}

}  // namespace gyrus
