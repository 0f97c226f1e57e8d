#pragma once
#include <map>
#include <set>
#include <string>

#include "graph/graph.h"

namespace gyrus {

// Ports without elements, which no buffer can hold: inputs become constants, results are known.
struct EmptyPorts {
  std::set<std::string> inputs;
  std::map<std::string, TensorType> results;
};
EmptyPorts empty_ports(const Graph& graph);
Graph without_empty_ports(const Graph& graph);

}  // namespace gyrus
