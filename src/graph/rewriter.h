#pragma once
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace gyrus {

// Builds a new graph node by node from an old one. `operator()` maps an old value to its new one; nodes that a pass
// does not care about are copied as they are.
class Rewriter {
 public:
  explicit Rewriter(const Graph& old);

  // The new value for an old one; constants are carried over on first use.
  ValueId operator()(ValueId old);
  std::vector<ValueId> operator()(const std::vector<ValueId>& old);
  // Says which new value stands for an old one from here on.
  void replace(ValueId old, ValueId with);
  // Copies a node with its inputs mapped; output types and names are kept.
  void copy(const Node& node);
  // The node with its inputs mapped.
  Node mapped(const Node& node);
  // Puts what the node's op takes it apart into in its place.
  void take_apart(const Node& node);
  // Appends `changed`, whose inputs are new values, in the place of an old node; output types and names are kept.
  void add(const Node& old, Node changed);
  // Appends a node whose first outputs stand for these old values, which give them their names. Returns all outputs.
  std::vector<ValueId> add_for(const std::vector<ValueId>& old_outputs, Node node);

  // The node of the old graph that makes an old value, and the one of the new graph that makes a new value; null for
  // what no node makes. The latter holds until a node is added.
  const Node* old_maker(ValueId old) const;
  const Node* maker(ValueId value);
  // How often an old value is read; results of the graph count.
  uint32_t uses(ValueId old) const { return uses_.at(old); }

  Graph& graph() { return graph_; }
  const Graph& old() const { return old_; }
  // Connects outputs, captures and updates, drops dead nodes and verifies.
  Graph finish(const std::string& pass);

 private:
  const Graph& old_;
  Graph graph_;
  std::vector<ValueId> map_;
  std::vector<uint32_t> uses_;
  std::vector<int64_t> old_makers_;
  std::vector<size_t> makers_;  // of the new graph, node + 1; grows with it
  size_t indexed_ = 0;          // nodes of the new graph that makers_ knows
};

// The graph with nodes taken apart by their ops, as long as `apart` says so of one that can be: what ops become may be
// composite again.
Graph take_apart(const Graph& graph, const std::string& pass,
                 const std::function<bool(const Graph& graph, const Node& node)>& apart);

}  // namespace gyrus
