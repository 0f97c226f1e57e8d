#pragma once
#include "graph/op.h"

namespace gyrus {

// An elementwise node that may become steps of another one: all its values are floats (but for keys of random numbers),
// so that its steps share one arithmetic type with their neighbours, it does not round (a cast does), and it has one
// result.
bool is_fusible(const Graph& graph, const Node& node);

}  // namespace gyrus
