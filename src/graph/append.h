#pragma once
#include <vector>

#include "graph/graph.h"

namespace gyrus {

// Appends the nodes of a graph without states and arguments, fed with `inputs`, one for each of its own in their order;
// returns its outputs. Names of constants are not kept.
std::vector<ValueId> append_graph(Graph& to, const Graph& part, const std::vector<ValueId>& inputs);

}  // namespace gyrus
