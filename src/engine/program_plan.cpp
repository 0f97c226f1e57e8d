#include "engine/program_plan.h"

#include "graph/graph.h"
#include "passes/passes.h"

namespace gyrus {

ProgramPlan plan_program(const Graph& graph, const Target& target, Precision precision, const PlanOptions& options) {
  Graph whole;
  ProgramPlan out = split_ports(graph, whole);
  if (!results(whole).empty()) out.plan = make_plan(optimize(whole, precision), target, options);
  return out;
}

}  // namespace gyrus
