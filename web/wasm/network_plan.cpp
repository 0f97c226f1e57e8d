#include "network.h"
#include "plan/check.h"

namespace gyrus {

void answer_with_plan(const Graph& graph, const Json& request) {
  const Limits limits = limits_of(request.at("limits"));
  PlanOptions options = request.at("software").get<bool>() ? software_options() : PlanOptions{};
  options.check_finite = request.at("checkFinite");
  options.dispatch_flops = request.value("dispatchFlops", 0.0);
  answer.about = dump({{"inputs", ports_json(graph, graph.inputs())},
                       {"outputs", ports_json(graph, graph.outputs())},
                       {"captures", ports_json(graph, graph.captures())}});
  const Precision precision = request.at("precision") == "f16" ? Precision::F16 : Precision::F32;
  ProgramPlan program = plan_program(graph, limits, precision, options);
  if (!program.plan) return;
  check(*program.plan, limits);
  answer.text = to_json(*program.plan);
  answer.data = std::move(program.plan->weights);
}

}  // namespace gyrus

GYRUS_EXPORT const char* gyrus_network_ports() { return gyrus::answer.about.c_str(); }
