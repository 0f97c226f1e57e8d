#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace gyrus {

// Turns a graph that went through the passes into a plan that keeps the limits: a pure function of its arguments.
// Throws OverLimits where no cutting makes it fit, naming the node.
Plan make_plan(const Graph& graph, const Limits& limits);

}  // namespace gyrus
