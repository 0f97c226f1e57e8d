#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "gyrus/target.h"
#include "plan/plan.h"

namespace gyrus {

// The shape of convolution kernels. Results differ between shapes only where sums of statistics are taken in another
// order.
struct ConvTuning {
  uint32_t workgroup = 128;
  uint32_t registers = 16;        // vec4 sums that one thread holds: voxels × quads of output channels
  uint32_t quads = 4;             // of output channels in one thread, at most
  bool stage_weights = true;      // in workgroup memory
  bool gather_statistics = true;  // in the convolution, else in a pass of its own
  bool winograd = true;           // where three taps along H allow it
  bool operator==(const ConvTuning&) const = default;
};

struct PlanOptions {
  ConvTuning conv;
  bool check_finite = false;  // every float is tested before it is stored; the first that is not finite stops the run
  // A dispatch with more work than so many flops becomes several: a browser draws nothing while one runs. 0: as it
  // comes.
  double dispatch_flops = 0;
  bool share_memory = true;  // between values that are not alive together; without it errors in their order show
};

// Good defaults for a software adapter, where threads are lanes of a CPU's vector registers: few sums at a time, and
// no barriers, which cost it more than reads.
PlanOptions software_options();

// Turns a graph that went through the passes into a plan that keeps the target's limits: a pure function of its
// arguments. Throws OverLimits where no cutting makes it fit, naming the node.
Plan make_plan(const Graph& graph, const Target& target, const PlanOptions& options = {});

}  // namespace gyrus
