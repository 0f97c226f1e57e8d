#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gyrus/device.h"
#include "gyrus/memory.h"
#include "gyrus/text.h"
#include "llm/model.h"
#include "plan/planner.h"
#include "runtime/executor.h"

namespace gyrus::llm {

// A token on its way through the model. A negative position: a row that is not used.
struct StepRow {
  int32_t token = 0;
  int64_t sequence = 0;
  int64_t position = -1;
};

// How a token is chosen, and the number of the draw.
struct Choice {
  Sampling sampling;
  uint32_t step = 0;
  int64_t sequence = 0;
};

struct StepResult {
  std::vector<int32_t> tokens;
  Tensor logits;  // [tokens, vocabulary], where asked for
  Profile profile;
};

// The numbers of rows for which plans are made: one, a few, and a chunk.
std::vector<int64_t> step_sizes(const TextOptions& options);

// The plan of a step.
Plan step_plan(const Model& model, int64_t rows, StepKind kind, const Target& target, const PlanOptions& options = {});

// Weights, cache and the plans of step_sizes(), from the plans alone.
TextMemory planned_memory(const Model& model, const Target& target, const PlanOptions& options = {});

// A model on a device. One thread at a time may use it.
class Runner {
 public:
  // Loads the plans of step_sizes() and uploads the weights.
  Runner(const Device& device, std::shared_ptr<const Model> model);

  const Model& model() const { return *model_; }
  Memory& memory() { return memory_; }
  TextMemory allocated() const;

  // Rows of one sequence, at most a chunk: a token behind the last of them.
  StepResult prefill(const std::vector<StepRow>& rows, const Choice& choice, bool logits = false);
  // A row and a token for each sequence.
  StepResult decode(const std::vector<StepRow>& rows, const std::vector<Choice>& choices, bool logits = false);
  // f32 [rows, vocabulary], or [rows, width] of the last layer's normed values.
  Tensor logits(const std::vector<StepRow>& rows) { return values(rows, StepKind::Logits, "logits"); }
  Tensor normed(const std::vector<StepRow>& rows) { return values(rows, StepKind::Normed, "normed"); }
  int64_t rows_of_values() const;  // that the last two take at once, at most

  // Says which tokens a sequence has, for the repetition penalty.
  void set_seen(int64_t sequence, const std::vector<int32_t>& tokens);

 private:
  Executor& executor(int64_t rows, StepKind kind);
  Tensor row_table(const std::vector<StepRow>& rows, int64_t count) const;
  StepResult chosen(Executor& executor, std::map<std::string, Tensor> inputs, RunOptions options, bool logits);
  Tensor values(const std::vector<StepRow>& rows, StepKind kind, const char* name);
  void upload();

  Device device_;
  std::shared_ptr<const Model> model_;
  Memory memory_;
  Target target_;
  PlanOptions plan_options_;
  std::map<std::pair<int64_t, StepKind>, Executor> executors_;
};

}  // namespace gyrus::llm
