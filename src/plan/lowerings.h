#pragma once
#include "plan/lower_conv.h"

namespace gyrus {

// Whether a node is for the op's kernel on a target; where it is not, the op is decomposed.
using Suits = bool (*)(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options);
using OrderWeights = WeightOrders (*)(const Graph& graph, const Node& node, const Target& target,
                                      const PlanOptions& options);

// How the planner treats an op.
struct LoweringEntry {
  const OpDef* op = nullptr;
  Lower lower = nullptr;
  OrderWeights order = nullptr;  // how its weights are to be arranged, where it has any
  Suits suits = nullptr;         // null: always
};

// The entry of a node's op; throws InvalidGraph for an op that only passes know.
const LoweringEntry& lowering_of(const Node& node);

// The graph with what does not suit the target decomposed.
Graph fit(const Graph& graph, const Target& target, const PlanOptions& options);

}  // namespace gyrus
