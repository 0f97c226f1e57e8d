#pragma once
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
  // Appends `changed`, whose inputs are new values, in the place of an old node; output types and names are kept.
  void add(const Node& old, Node changed);
  Graph& graph() { return graph_; }
  const Graph& old() const { return old_; }
  // Connects outputs, captures and updates, drops dead nodes and verifies.
  Graph finish(const std::string& pass);

 private:
  const Graph& old_;
  Graph graph_;
  std::vector<ValueId> map_;
};

}  // namespace gyrus
