#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cpu/kernel.h"

namespace gyrus::cpu {

// A step of a network, for progress and profiles.
struct StepFacts {
  std::string label, kernel;
  double flops = 0, bytes = 0;
};

struct NetworkOptions {
  KernelOptions kernels{};
  bool check_finite = false;  // every float is tested; the first that is not finite is NonFinite, naming its node
};

// A graph that went through optimize_plain, with its kernels prepared and its memory assigned. One thread at a time may
// use it; runs share out their work over the pool that they are given.
class Network {
 public:
  explicit Network(Graph graph, const NetworkOptions& options = {});
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  const Graph& graph() const { return graph_; }
  const std::vector<StepFacts>& steps() const { return facts_; }
  // Of what the network holds: maps, scratch and arranged weights, without its constants.
  uint64_t bytes() const { return arena_bytes_ + weight_bytes_; }
  uint64_t constant_bytes() const;
  double flops() const;

  // Memory for maps; before the first run, or made by it. Throws OverLimits where the system refuses.
  void allocate();

  // Where an input, state or argument lies from now on; must stay until the end of the next run. Never written.
  void bind(ValueId source, const std::byte* data);
  // One step; a run is all of them in their order.
  void run_step(size_t step, ThreadPool& pool);
  // Runs all steps; `before` is called with the number of each, and may throw to stop.
  void run(ThreadPool& pool, const std::function<void(size_t step)>& before = {});
  // What a value is after a run: a result of the graph, an input, a state or a constant.
  const std::byte* data(ValueId value) const;

 private:
  struct Slots;
  void assign();
  ValueId root(ValueId value) const { return roots_[value]; }
  const std::byte* place(ValueId value) const;

  Graph graph_;
  NetworkOptions options_;
  std::vector<Prepared> prepared_;     // as the nodes; aliases have none
  std::vector<size_t> nodes_;          // of the steps
  std::vector<StepFacts> facts_;       // of the steps
  std::vector<ValueId> roots_;         // the value whose memory a value lies in
  std::vector<int64_t> slot_of_;       // of roots that nodes make
  std::vector<int64_t> scratch_slot_;  // of nodes, or -1
  std::vector<const std::byte*> given_;
  std::unique_ptr<Slots> slots_;
  uint64_t arena_bytes_ = 0, weight_bytes_ = 0;
};

}  // namespace gyrus::cpu
