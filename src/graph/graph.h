#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "gyrus/graph.h"

// What the engine asks of graphs besides.

namespace gyrus {

// The graph as text, one node a line: "%3:f32[1,5,8,8,8] = conv(%0, @w, @b) {dilation=[1,1,1]}".
std::string print(const Graph& graph);
std::string print(const Graph& graph, const Node& node);

// Throws InvalidGraph naming the node where an id is used before it is made, a type contradicts the op's shape rule,
// an op is unknown, an output is missing or a name is used twice. `after` names the pass that just ran.
void verify(const Graph& graph, const std::string& after = "import");

// What must be there when a run ends: outputs, captures and the next values of states.
std::vector<ValueId> results(const Graph& graph);
// Copies inputs, states (without their updates) and arguments; map[old] becomes the new value.
void copy_sources(const Graph& from, Graph& to, std::vector<ValueId>& map);
// Copies outputs, captures and updates; `map` gives the new value for an old one.
void copy_results(const Graph& from, Graph& to, const std::function<ValueId(ValueId)>& map);
// How often each value is read (results of the graph count).
std::vector<uint32_t> use_counts(const Graph& graph);
// For each value the index of the node that makes it, or -1.
std::vector<int64_t> producers(const Graph& graph);
// A copy without nodes and constants whose results nobody reads. Inputs, states and arguments stay.
Graph without_dead_nodes(const Graph& graph);

}  // namespace gyrus
