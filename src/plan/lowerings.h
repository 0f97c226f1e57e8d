#pragma once
#include "plan/lower_conv.h"

namespace gyrus {

using OrderWeights = WeightOrders (*)(const Graph& graph, const Node& node, const Target& target,
                                      const PlanOptions& options);

// How the planner treats an op.
struct LoweringEntry {
  const OpDef* op = nullptr;
  Lower lower = nullptr;
  OrderWeights order = nullptr;  // how its weights are to be arranged, where it has any
};

// The entry of a node's op; throws InvalidGraph for an op that only passes know.
const LoweringEntry& lowering_of(const Node& node);

}  // namespace gyrus
