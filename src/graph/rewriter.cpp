#include "graph/rewriter.h"

#include <algorithm>

#include "core/error.h"
#include "graph/op.h"

namespace gyrus {

Rewriter::Rewriter(const Graph& old)
    : old_(old), map_(old.value_count(), kNoValue), uses_(use_counts(old)), old_makers_(producers(old)) {
  copy_sources(old, graph_, map_);
}

ValueId Rewriter::operator()(ValueId id) {
  if (id == kNoValue) return id;
  if (map_.at(id) == kNoValue && old_.is_constant(id)) {
    const ValueInfo& value = old_.value(id);
    map_[id] = graph_.add_constant(value.name, value.constant);
    graph_.set_type(map_[id], value.type);
  }
  if (map_[id] == kNoValue) fail(ErrorCode::InvalidGraph, "pass", "value %", id, " is used before it is made");
  return map_[id];
}

std::vector<ValueId> Rewriter::operator()(const std::vector<ValueId>& old) {
  std::vector<ValueId> mapped;
  mapped.reserve(old.size());
  for (ValueId id : old) mapped.push_back((*this)(id));
  return mapped;
}

void Rewriter::replace(ValueId old, ValueId with) { map_.at(old) = with; }

Node Rewriter::mapped(const Node& node) {
  Node result = node;
  result.inputs = (*this)(node.inputs);
  return result;
}

std::vector<ValueId> Rewriter::add_for(const std::vector<ValueId>& old_outputs, Node node) {
  const std::vector<ValueId> outputs = graph_.add_node(std::move(node));
  for (size_t i = 0; i < old_outputs.size(); ++i) {
    graph_.set_name(outputs.at(i), old_.value(old_outputs[i]).name);
    replace(old_outputs[i], outputs[i]);
  }
  return outputs;
}

void Rewriter::add(const Node& old, Node changed) {
  const std::vector<ValueId> outputs = add_for(old.outputs, std::move(changed));
  for (size_t i = 0; i < outputs.size(); ++i) graph_.set_type(outputs[i], old_.type(old.outputs[i]));
}

void Rewriter::copy(const Node& node) { add(node, mapped(node)); }

void Rewriter::take_apart(const Node& node) {
  const std::vector<ValueId> values = op(node.op).decompose(graph_, mapped(node));
  for (size_t i = 0; i < node.outputs.size(); ++i) replace(node.outputs[i], values.at(i));
}

const Node* Rewriter::old_maker(ValueId id) const {
  if (id == kNoValue || old_makers_.at(id) < 0) return nullptr;
  return &old_.nodes()[static_cast<size_t>(old_makers_[id])];
}

const Node* Rewriter::maker(ValueId id) {
  makers_.resize(graph_.value_count(), 0);
  for (; indexed_ < graph_.nodes().size(); ++indexed_)
    for (ValueId output : graph_.nodes()[indexed_].outputs) makers_.at(output) = indexed_ + 1;
  if (id == kNoValue || makers_.at(id) == 0) return nullptr;
  return &graph_.nodes()[makers_[id] - 1];
}

Graph Rewriter::finish(const std::string& pass) {
  copy_results(old_, graph_, [this](ValueId id) { return (*this)(id); });
  Graph result = without_dead_nodes(graph_);
  verify(result, pass);
  return result;
}

Graph with_shapes(const Graph& graph, const std::map<std::string, Shape>& shapes) {
  Rewriter rewrite(graph);
  std::string known;
  for (const Port& input : graph.inputs()) known += (known.empty() ? "" : ", ") + input.name;
  for (const auto& [name, shape] : shapes) {
    const auto input = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                    [&n = name](const Port& port) { return port.name == n; });
    if (input == graph.inputs().end())
      fail(ErrorCode::InvalidInput, name, "the network has no such input; it has: ", known.empty() ? "none" : known);
    rewrite.graph().set_type(rewrite(input->value), {graph.type(input->value).dtype, shape});
  }
  for (const Node& node : graph.nodes()) rewrite.add_for(node.outputs, rewrite.mapped(node));
  return rewrite.finish("with_shapes");
}

Graph take_apart(const Graph& graph, const std::string& pass,
                 const std::function<bool(const Graph& graph, const Node& node)>& apart) {
  Graph current = graph;
  const auto composite = [&](const Node& node) { return op(node.op).decompose && apart(current, node); };
  while (std::any_of(current.nodes().begin(), current.nodes().end(), composite)) {
    Rewriter rewrite(current);
    for (const Node& node : current.nodes()) {
      if (composite(node))
        rewrite.take_apart(node);
      else
        rewrite.copy(node);
    }
    current = rewrite.finish(pass);
  }
  return current;
}

}  // namespace gyrus
