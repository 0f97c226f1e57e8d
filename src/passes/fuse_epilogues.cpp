#include <optional>

#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/fused.h"
#include "passes/fusible.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

// The input of a node behind whose maker it can run.
struct Host {
  size_t input = 0;
  const Node* node = nullptr;  // of the new graph
};

bool reads_further(const Graph& graph, const Node& node, size_t host) {
  const TensorType& raw = graph.type(node.inputs[host]);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] == kNoValue ||
        (i != host && (node.inputs[i] == node.inputs[host] || graph.type(node.inputs[i]).shape != raw.shape)))
      return false;
  return true;
}

std::optional<Host> host_of(Rewriter& rewrite, const Node& node) {
  if (!is_fusible(rewrite.old(), node) || is_indexed(node)) return std::nullopt;
  // The last to be made: what else the node reads is there by then, and its memory is the freshest.
  for (size_t i = node.inputs.size(); i-- > 0;) {
    if (node.inputs[i] == kNoValue || rewrite.uses(node.inputs[i]) != 1) continue;
    const Node* host = rewrite.maker(rewrite(node.inputs[i]));
    if (!host || !host->results.empty()) continue;
    const OpDef& def = op(host->op);
    if (!def.takes_body || def.body_only || !def.takes_body(*host)) continue;
    if (node.inputs.size() > 1 && !(def.reads_further && reads_further(rewrite.old(), node, i))) continue;
    if (host->body.size() + body_of(node).size() <= kMaxBodySteps) return Host{i, host};
  }
  return std::nullopt;
}

// The host with the steps of the node behind its own.
Node joined(Rewriter& rewrite, const Node& node, const Host& host) {
  Node fused = *host.node;
  const size_t operands = body_operands(fused), added = node.inputs.size() - 1;
  const auto moved = [&](ValueId id) { return static_cast<ValueId>(id < operands ? id : id + added); };
  for (Node& step : fused.body)
    for (ValueId& id : step.inputs) id = moved(id);
  const auto values = static_cast<ValueId>(operands + added + fused.body.size());
  const ValueId last = fused.body.empty() ? 0 : values - 1;
  std::vector<ValueId> names;  // of the node's inputs in the body
  if (added > 0) fused.inputs.resize(own_inputs(fused) + operands - 1, kNoValue);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i == host.input) {
      names.push_back(last);
      continue;
    }
    names.push_back(static_cast<ValueId>(1 + fused.inputs.size() - own_inputs(fused)));
    fused.inputs.push_back(rewrite(node.inputs[i]));
  }
  for (Node step : body_of(node)) {
    for (ValueId& id : step.inputs)
      id = id < names.size() ? names[id] : static_cast<ValueId>(values + id - names.size());
    fused.body.push_back(std::move(step));
  }
  return fused;
}

}  // namespace

Graph fuse_epilogues(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    const std::optional<Host> host = host_of(rewrite, node);
    if (host)
      rewrite.add_for(node.outputs, joined(rewrite, node, *host));
    else
      rewrite.copy(node);
  }
  return rewrite.finish("fuse_epilogues");
}

}  // namespace gyrus
