#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/network.h"
#include "engine/policy.h"
#include "engine/windows.h"
#include "gyrus/segmenter.h"
#include "passes/passes.h"
#include "plan/planner.h"

// From a model to a plan that fits a device. Needs no GPU: the web page compiles with the same code.

namespace gyrus {

// What a plan is made for: a device as the planner sees it.
struct CompileTarget : Target {
  std::string name;
  PlanOptions tuning;
  std::optional<MemoryBudget> memory;
  bool cpu = false;      // not WebGPU: networks for the CPU's own kernels are made (compile_for_cpu)
  std::string device{};  // adapter and driver, under which tunings are kept; empty: none are looked for
  // The tuning kept for a graph that went through the passes, if there is one; may be empty.
  std::function<std::optional<ConvTuning>(const CompileTarget&, const Graph&)> kept{};
};

// The specification's default limits, of no device in particular.
CompileTarget default_target();

// "f32", "f16" or "auto"; throws InvalidInput on anything else.
PrecisionChoice parse_precision(const std::string& text);

// "auto", "on" or "off"; throws InvalidInput on anything else.
MatrixUse parse_matrix(const std::string& text);

// What runs where a network sees a part of the volume at a time (windows.h): the plan for each of these, then `finish`.
struct Windowed {
  Plan finish;
  std::vector<Start> starts;
};

namespace cpu {
class Network;
}

struct Compiled {
  Graph before;  // as imported, with the normalisation in front and the argmax behind
  Graph after;   // as planned
  Plan plan;
  Decision decision;  // which plan it is, and why
  std::optional<Windowed> windowed{};
  // On the CPU these run, and the plans only say what they are.
  std::shared_ptr<cpu::Network> network{}, finish_network{};

  uint64_t peak_bytes() const;  // on the device, of all that is there at once
  double flops() const;         // of all windows
};

// Called with the name of each pass and the graph that it made.
using PassObserver = std::function<void(const std::string& pass, const Graph&)>;

// The plan that choose_plan() decides for. Of `network`, an ONNX model minds the output only. Throws OverLimits when it
// surely needs more memory than the target has.
Compiled compile(const Model& model, const Shape& spatial, const NetworkOptions& network, const CompileTarget& target,
                 PrecisionChoice precision, const PassObserver& observer = {});
// This plan and no other.
Compiled compile(const Model& model, const Shape& spatial, const NetworkOptions& network, const CompileTarget& target,
                 const PlanChoice& choice, const PassObserver& observer = {});

}  // namespace gyrus
