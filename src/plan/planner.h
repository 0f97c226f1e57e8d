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
  MatrixUse matrix = MatrixUse::Auto;
  bool check_finite = false;  // every float is tested before it is stored; the first that is not finite stops the run
  // A dispatch with more work than so many flops becomes several: a browser draws nothing while one runs. 0: as it
  // comes.
  double dispatch_flops = 0;
  // Scans are cut along time, so that there is work for a device; without it one lane goes along each line.
  bool scans_in_parts = true;
  bool share_memory = true;  // between values that are not alive together; without it errors in their order show
};

// Good defaults for a software adapter, where threads are lanes of a CPU's vector registers: few sums at a time, and
// no barriers, which cost it more than reads.
PlanOptions software_options();

// How a plan came about, for those who look at it.
struct PlanTrace {
  struct Steps {
    size_t begin = 0, end = 0;
  };
  // Bytes that a node keeps on the device, from the first step that needs them to the last, both included.
  struct Tenant {
    std::string label;
    uint64_t bytes = 0;
    int64_t first = 0, last = 0;  // -1: from before the first step; at most the number of steps
    uint32_t buffer = 0;          // of the plan, which others have before and after
  };
  Graph graph;               // as it was lowered, with weights arranged
  std::vector<Steps> nodes;  // the steps of each of its nodes
  std::vector<Tenant> memory;
};

// Turns a graph that went through the passes into a plan that keeps the target's limits: a pure function of its
// arguments. Throws OverLimits where no cutting makes it fit, naming the node.
Plan make_plan(const Graph& graph, const Target& target, const PlanOptions& options = {}, PlanTrace* trace = nullptr);

// The two halves of make_plan: the graph as it will be lowered (what does not suit the target decomposed, weights
// arranged), and the plan of such a graph. Captures may be added between the two; one of a packed value is given as it
// lies, [N, planes, quads, rest…, 4].
Graph planned_graph(const Graph& graph, const Target& target, const PlanOptions& options = {});
Plan lower_graph(const Graph& graph, const Target& target, const PlanOptions& options = {}, PlanTrace* trace = nullptr);

}  // namespace gyrus
