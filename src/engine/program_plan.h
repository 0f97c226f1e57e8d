#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "gyrus/program.h"
#include "import/model.h"
#include "plan/planner.h"

// What a Program does before there is a device: also for the web package, whose Program is the same on its side.

namespace gyrus {

// A plan for a graph, and where its ports are not the graph's: devices have no integers of 64 bits, no truth values and
// no buffers without elements.
struct ProgramPlan {
  std::optional<Plan> plan;                         // none where no result has an element
  std::map<std::string, DType> wide;                // outputs and captures that the device has in fewer bits
  std::set<std::string> empty_inputs;               // without elements: the plan does not take them
  std::map<std::string, TensorType> empty_results;  // likewise: the plan does not make them
};

// Without the plan: how the graph's ports change, and the graph that is left of it.
ProgramPlan split_ports(const Graph& graph, Graph& whole);
// Throws what the passes and the planner throw.
ProgramPlan plan_program(const Graph& graph, const Target& target, Precision precision, const PlanOptions& options);

// The graph of a model for volumes; `shapes` must say that of "image". Throws InvalidInput.
Graph model_graph(const Model& model, const Shapes& shapes);

}  // namespace gyrus
