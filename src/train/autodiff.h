#pragma once
#include <vector>

#include "graph/graph.h"
#include "gyrus/train.h"

// Gradients as nodes. Training adds them before the planner; nothing behind it knows of them.

namespace gyrus {

// A graph ready for add_gradients: composites without a gradient of their own are decomposed. Ports keep their names.
Graph differentiable(const Graph& graph);

// A value and the gradient that is given for it.
struct Seed {
  ValueId value = kNoValue;
  ValueId gradient = kNoValue;
};

// Appends to a graph that is `differentiable` the nodes that give the gradients of Σ seed gradient · seed value in each
// of `of`; kNoValue where it does not depend on one. Throws Unsupported, naming the node, where an op on the way has
// none.
std::vector<ValueId> add_gradients(Graph& graph, const std::vector<Seed>& seeds, const std::vector<ValueId>& of,
                                   Recompute recompute = Recompute::Norms);

}  // namespace gyrus
