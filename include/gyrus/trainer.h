#pragma once
#include <cstddef>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gyrus/train.h"

namespace gyrus {

struct TrainerOptions {
  TrainingOptions training{};
  Schedule schedule{};
  int32_t seed = 0;  // of the random numbers of a graph with a random_key (gyrus/random.h)
  ProgramOptions program{};
};

struct StepResult {
  double loss = 0;
  bool updated = true;                    // false while gradients are only collected, and where the step was skipped
  bool skipped = false;                   // gradients were not finite; the loss scale is smaller now
  std::map<std::string, Tensor> outputs;  // those that were asked for, and captures
  Profile profile;
};

struct TrainerImpl;

// Trains a network: a graph with a loss, whose parameters are its states (gyrus/train.h). Training and inference are
// compiled apart and share one Memory; plans are made for the shapes that come.
//
// Copies are the same trainer. Any thread may call it; calls take turns in the order in which they come. A loss that is
// not finite is NonFinite, naming the step and the first node whose values are not finite, and so are gradients that
// are not finite at the least loss scale: all states are then those of the last good step.
class Trainer {
 public:
  // Throws what training_graph finds wrong with the graph and the options.
  Trainer(const Device& device, Graph graph, const TrainerOptions& options = {});
  Trainer(const Device& device, Graph graph, const Memory& memory, const TrainerOptions& options = {});

  // One step: forward, backward, and, unless gradients are collected, the update. `options.outputs` are read back as
  // well as the loss, none unless given; `options.captures` may name "gradient/NAME". Other arguments than the learning
  // rate, the step and those of the random key are the caller's.
  StepResult step(const std::map<std::string, Tensor>& inputs, const RunOptions& options = {});
  std::future<StepResult> step_async(std::map<std::string, Tensor> inputs, RunOptions options = {});
  // The network without its loss.
  RunResult run(const std::map<std::string, Tensor>& inputs, const RunOptions& options = {});

  std::vector<std::string> names() const;  // of the parameters that are trained
  std::map<std::string, Tensor> parameters() const;
  // Replaces parameters: all of them, or with `partial` some. Names that are unknown or missing are InvalidInput.
  void set_parameters(const std::map<std::string, Tensor>& values, bool partial = false);
  // The optimiser as it was at first, and the count of steps; parameters stay.
  void reset_optimizer();

  int64_t updates() const;    // made so far
  int64_t steps() const;      // so far, with those that only collected; the next one draws with it
  double rate() const;        // of the next update
  double loss_scale() const;  // of the next step; 1 without loss scaling
  int64_t skipped() const;    // updates so far that were not made, since gradients were not finite
  void set_schedule(const Schedule& schedule);

  // Everything that the next step depends on, as the bytes of a safetensors file: parameters, the optimiser's states,
  // counts. After load() the losses are those that would have followed save().
  std::vector<std::byte> save() const;
  void load(const std::vector<std::byte>& file);

  // With all states of the network and of the optimiser.
  Memory& memory();

 private:
  std::shared_ptr<TrainerImpl> impl_;
};

}  // namespace gyrus
