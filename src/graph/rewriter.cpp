#include "graph/rewriter.h"

#include "core/error.h"

namespace gyrus {

Rewriter::Rewriter(const Graph& old) : old_(old), map_(old.value_count(), kNoValue) {
  copy_sources(old, graph_, map_);
}

ValueId Rewriter::operator()(ValueId id) {
  if (map_.at(id) == kNoValue && old_.is_constant(id)) {
    const Value& value = old_.value(id);
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

void Rewriter::copy(const Node& node) {
  Node copied = node;
  copied.inputs = (*this)(node.inputs);
  add(node, std::move(copied));
}

void Rewriter::add(const Node& old, Node changed) {
  const std::vector<ValueId> outputs = graph_.add_node(std::move(changed));
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph_.set_type(outputs[i], old_.type(old.outputs[i]));
    graph_.set_name(outputs[i], old_.value(old.outputs[i]).name);
    replace(old.outputs[i], outputs[i]);
  }
}

Graph Rewriter::finish(const std::string& pass) {
  copy_results(old_, graph_, [this](ValueId id) { return (*this)(id); });
  Graph result = without_dead_nodes(graph_);
  verify(result, pass);
  return result;
}

}  // namespace gyrus
