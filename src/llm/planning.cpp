#include "llm/planning.h"

#include "engine/program_plan.h"

namespace gyrus::llm {

Plan step_plan(const Model& model, int64_t rows, StepKind kind, const Target& target, const PlanOptions& options) {
  Target used = target;
  if (model.options().limits) used.limits = *model.options().limits;
  PlanOptions asked = options;
  asked.matrix = model.options().matrix;
  return *plan_program(model.step(rows, kind), used, model.options().precision, asked).plan;
}

TextMemory planned_memory(const Model& model, const Target& target, const PlanOptions& options) {
  TextMemory memory;
  for (const int64_t rows : step_sizes(model.options())) {
    const Plan plan = step_plan(model, rows, StepKind::Last, target, options);
    for (const PlanBuffer& buffer : plan.buffers)
      if (buffer.kind != BufferKind::State) memory.scratch += buffer.size;
    if (memory.weights > 0) continue;
    std::map<std::string, bool> weights;
    for (const WeightState& weight : model.weights()) weights[weight.name] = true;
    for (const PlanState& state : plan.states)
      for (const Piece& piece : state.pieces)
        (weights.count(state.name) ? memory.weights : memory.cache) += piece.range.size;
  }
  return memory;
}

}  // namespace gyrus::llm
