#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/device.h"
#include "gyrus/graph.h"
#include "gyrus/memory.h"
#include "gyrus/run.h"
#include "gyrus/target.h"

namespace gyrus {

using Shapes = std::map<std::string, Shape>;  // of inputs, by name

// What it took to make a program ready for inputs of some shapes.
struct Planned {
  Shapes shapes;
  double plan_seconds = 0;  // from the graph to a plan
  double load_seconds = 0;  // from the plan to buffers with weights, and kernels
  size_t kernels = 0;       // that the plan runs
  size_t compiled = 0;      // of them that the device did not have yet
  uint64_t bytes = 0;       // on the device, without states
};

struct ProgramOptions {
  Precision precision{};
  std::optional<Limits> limits{};  // that plans keep, where that is to be less than the device has
  bool check_finite = false;       // every float is tested; the first that is not finite is NonFinite, naming its node
  size_t keep_plans = 8;           // those used last stay on the device, with their buffers
  std::function<void(const Planned&)> planned{};  // called for every plan that is made
  MatrixUse matrix = MatrixUse::Auto;             // of devices that were opened with matrix units
};

struct ProgramImpl;

// A network on a device, for inputs of any shapes that it can take. A plan is made when shapes come for the first time,
// which takes milliseconds, and kept: kernels are shared between plans by their text, states through the Memory.
//
// Copies are the same program. Any thread may call it; runs of one program take turns, runs of several programs go side
// by side unless they share a Memory. A run returns when it has ended, run_async at once.
class Program {
 public:
  // Nothing is planned before the first run. Throws what verify() finds wrong with the graph.
  Program(const Device& device, Graph graph, const ProgramOptions& options = {});
  Program(const Device& device, Graph graph, const Memory& memory, const ProgramOptions& options = {});
  // `make` gives the graph for inputs of these shapes, where the nodes of one graph do not serve for all of them.
  using Make = std::function<Graph(const Shapes&)>;
  Program(const Device& device, Make make, const ProgramOptions& options = {});
  Program(const Device& device, Make make, const Memory& memory, const ProgramOptions& options = {});

  // Plans for these shapes unless that was done already; inputs that are not named have the shapes of the graph. States
  // are in the Memory from then on, with their starts.
  Planned prepare(const Shapes& shapes = {});
  // Throws what Executor::run, the graph and the planner throw: gyrus::Error. The program stays usable unless the
  // device is lost. Integers of 64 bits pass through 32; one that does not fit is InvalidInput.
  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& options = {});
  // The same on a thread of its own. What `options` points to must live until it has ended; the destructor of the
  // future waits for that.
  std::future<RunResult> run_async(std::map<std::string, Tensor> inputs, RunOptions options = {});

  Memory& memory();
  const Device& device() const;
  std::vector<Planned> plans() const;  // that are kept, the one used last first

 private:
  std::shared_ptr<ProgramImpl> impl_;
};

// The graph of a model's files (docs/models.md): a folder, a file of it, or a name in the store. `shapes` says how
// large the inputs are where the model takes any size. For volumes: input "image" f32 [1,C,spatial…], output "logits"
// f32 [1,classes,spatial…]. An ONNX model has the inputs and outputs of its file. Throws InvalidModel, Unsupported,
// InvalidInput or Io.
Graph load_graph(const std::string& model, const Shapes& shapes);

}  // namespace gyrus
