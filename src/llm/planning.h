#pragma once
#include "llm/model.h"
#include "plan/planner.h"

// Plans of a model's steps, and what they take, without a device.

namespace gyrus::llm {

// The plan of a step.
Plan step_plan(const Model& model, int64_t rows, StepKind kind, const Target& target, const PlanOptions& options = {});

// Weights, cache and the plans of step_sizes(), from the plans alone.
TextMemory planned_memory(const Model& model, const Target& target, const PlanOptions& options = {});

}  // namespace gyrus::llm
