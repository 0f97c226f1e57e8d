#pragma once
#include "graph/graph.h"

namespace gyrus {

// The graph of a model that was read, with its weights as parameters: constants of floats that have a name become
// states, but for the statistics that norms were given.
Graph with_parameters(const Graph& graph);

}  // namespace gyrus
