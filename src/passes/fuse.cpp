#include <algorithm>

#include "graph/op.h"
#include "ops/common.h"
#include "ops/fused.h"
#include "passes/passes.h"
#include "graph/rewriter.h"

namespace gyrus {
namespace {

// More operands than this would not leave room for the result under the smallest binding counts.
constexpr size_t kMaxFusedOperands = 3;

bool is_elementwise(const Node& node) { return op(node.op).family == KernelFamily::Elementwise; }

// All values of the node are floats, so its steps can share one arithmetic type with their neighbours.
bool is_all_float(const Graph& graph, const Node& node) {
  const auto floats = [&](ValueId id) { return is_float(graph.type(id).dtype); };
  return std::all_of(node.inputs.begin(), node.inputs.end(), floats) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), floats);
}

// Floating types that pass through unrounded: a cast between them must keep its rounding and is not fused.
bool is_fusible(const Graph& graph, const Node& node) {
  return is_elementwise(node) && node.op != "cast" && is_all_float(graph, node);
}

bool takes_epilogue(const Node& node) {
  if (node.op == "norm_apply") return true;
  return node.op == "conv" && node.attrs.integer("stats", 0) == 0;
}

// Puts node `inner`, which makes operand `k` of `outer`, inside `outer`.
Node merge(const Node& inner, const Node& outer, size_t k) {
  Node merged;
  merged.op = "fused";
  merged.label = outer.label;
  merged.inputs = inner.inputs;
  const auto operand = [&](ValueId id) {
    const auto found = std::find(merged.inputs.begin(), merged.inputs.end(), id);
    if (found != merged.inputs.end()) return static_cast<size_t>(found - merged.inputs.begin());
    merged.inputs.push_back(id);
    return merged.inputs.size() - 1;
  };
  std::vector<size_t> outer_operands(outer.inputs.size());
  for (size_t i = 0; i < outer.inputs.size(); ++i)
    if (i != k) outer_operands[i] = operand(outer.inputs[i]);
  const size_t operands = merged.inputs.size();
  const std::vector<Node> first = body_of(inner);
  const std::vector<Node> second = body_of(outer);
  for (const Node& step : first) {
    merged.body.push_back(step);
    for (ValueId& id : merged.body.back().inputs)
      if (id >= inner.inputs.size()) id = static_cast<ValueId>(id - inner.inputs.size() + operands);
  }
  const size_t inner_result = operands + first.size() - 1;
  for (const Node& step : second) {
    merged.body.push_back(step);
    for (ValueId& id : merged.body.back().inputs) {
      if (id >= outer.inputs.size())
        id = static_cast<ValueId>(id - outer.inputs.size() + operands + first.size());
      else
        id = static_cast<ValueId>(id == k ? inner_result : outer_operands[id]);
    }
  }
  return merged;
}

const Node* node_making(const Graph& graph, ValueId id) {
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node)
    if (std::find(node->outputs.begin(), node->outputs.end(), id) != node->outputs.end()) return &*node;
  return nullptr;
}

bool is_pointwise_conv(const Graph& graph, const Node& node) {
  if (node.op != "conv" || !node.body.empty() || node.attrs.integer("stats", 0) || node.attrs.integer("groups", 1) != 1)
    return false;
  const Shape& weight = graph.type(node.inputs[1]).shape;
  const auto all = [](const std::vector<int64_t>& list, int64_t value) {
    return std::all_of(list.begin(), list.end(), [value](int64_t v) { return v == value; });
  };
  return std::all_of(weight.begin() + 2, weight.end(), [](int64_t k) { return k == 1; }) &&
         all(node.attrs.integers("stride", {}), 1) && all(node.attrs.integers("pads", {}), 0);
}

// A convolution that can give the statistics of its raw result as well.
bool can_gather(const Node& node) {
  return node.op == "conv" && node.body.empty() && node.attrs.integer("groups", 1) == 1;
}

// An argmax over channels whose labels conv_argmax can write.
bool is_channel_argmax(const Graph& graph, const Node& node) {
  if (node.op != "argmax" || node.attrs.integer("keepdims", 0) != 0 || node.attrs.text("dtype", "u32") == "i32")
    return false;
  const Shape& shape = graph.type(node.inputs[0]).shape;
  return checked_axis(node, node.attrs.integer("axis"), shape.size()) == 1;
}

}  // namespace

Graph gather_statistics(const Graph& graph) {
  Rewriter rewrite(graph);
  const std::vector<int64_t> made_by = producers(graph);
  std::vector<bool> wanted(graph.nodes().size(), false);
  for (const Node& node : graph.nodes()) {
    const int64_t maker = node.op == "norm_stats" ? made_by[node.inputs[0]] : -1;
    if (maker >= 0 && can_gather(graph.nodes()[maker])) wanted[maker] = true;
  }
  std::vector<ValueId> statistics(graph.nodes().size(), kNoValue);  // new value, for each convolution that gives them
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const int64_t maker = node.op == "norm_stats" ? made_by[node.inputs[0]] : -1;
    if (maker >= 0 && statistics[maker] != kNoValue) {
      rewrite.replace(node.outputs[0], statistics[maker]);
      continue;
    }
    if (!wanted[i]) {
      rewrite.copy(node);
      continue;
    }
    Node conv = node;
    conv.inputs = rewrite(node.inputs);
    conv.attrs.set("stats", int64_t{1});
    const std::vector<ValueId> outputs = rewrite.graph().add_node(std::move(conv));
    for (size_t k = 0; k < node.outputs.size(); ++k) rewrite.replace(node.outputs[k], outputs[k]);
    statistics[i] = outputs[1];
  }
  return rewrite.finish("gather_statistics");
}

Graph fuse_epilogues(const Graph& graph) {
  Rewriter rewrite(graph);
  const std::vector<uint32_t> uses = use_counts(graph);
  for (const Node& node : graph.nodes()) {
    const Node* host = nullptr;
    if (node.inputs.size() == 1 && uses[node.inputs[0]] == 1 && is_fusible(graph, node))
      host = node_making(rewrite.graph(), rewrite(node.inputs[0]));
    if (!host || !takes_epilogue(*host) || host->body.size() + body_of(node).size() > kMaxBodySteps) {
      rewrite.copy(node);
      continue;
    }
    Node fused = *host;
    const size_t offset = fused.body.size();
    for (Node step : body_of(node)) {
      for (ValueId& id : step.inputs) id = static_cast<ValueId>(id == 0 ? offset : id + offset);
      fused.body.push_back(std::move(step));
    }
    rewrite.replace(node.outputs[0], rewrite.graph().add_node(std::move(fused))[0]);
  }
  return rewrite.finish("fuse_epilogues");
}

Graph fuse_argmax(const Graph& graph) {
  Rewriter rewrite(graph);
  const std::vector<uint32_t> uses = use_counts(graph);
  const std::vector<int64_t> made_by = producers(graph);
  for (const Node& node : graph.nodes()) {
    const int64_t before = node.inputs.empty() ? -1 : made_by[node.inputs[0]];
    const bool fits = before >= 0 && uses[node.inputs[0]] == 1 && is_channel_argmax(graph, node) &&
                      is_pointwise_conv(graph, graph.nodes()[before]);
    if (!fits) {
      rewrite.copy(node);
      continue;
    }
    const Node& conv = graph.nodes()[before];
    Attrs attrs = conv.attrs;
    attrs.erase("stats");
    attrs.set("dtype", node.attrs.text("dtype", "u32"));
    rewrite.replace(node.outputs[0], rewrite.graph().add("conv_argmax", rewrite(conv.inputs), attrs, conv.label));
  }
  return rewrite.finish("fuse_argmax");
}

Graph fuse_elementwise(const Graph& graph) {
  Rewriter rewrite(graph);
  const std::vector<uint32_t> uses = use_counts(graph);
  for (const Node& node : graph.nodes()) {
    if (!is_fusible(graph, node)) {
      rewrite.copy(node);
      continue;
    }
    Node current = node;
    current.inputs = rewrite(node.inputs);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Node* inner = node_making(rewrite.graph(), rewrite(node.inputs[k]));
      const bool same_shape = graph.type(node.inputs[k]).shape == graph.type(node.outputs[0]).shape;
      if (!inner || uses[node.inputs[k]] != 1 || !same_shape || !is_fusible(rewrite.graph(), *inner)) continue;
      const auto at = std::find(current.inputs.begin(), current.inputs.end(), inner->outputs[0]);
      if (at == current.inputs.end()) continue;
      Node merged = merge(*inner, current, static_cast<size_t>(at - current.inputs.begin()));
      if (merged.inputs.size() <= kMaxFusedOperands && merged.body.size() <= kMaxBodySteps) current = std::move(merged);
    }
    current.outputs.clear();
    rewrite.replace(node.outputs[0], rewrite.graph().add_node(std::move(current))[0]);
  }
  return rewrite.finish("fuse_elementwise");
}

}  // namespace gyrus
