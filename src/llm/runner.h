#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "gyrus/device.h"
#include "gyrus/memory.h"
#include "gyrus/text.h"
#include "llm/planning.h"
#include "runtime/executor.h"

namespace gyrus::llm {

struct StepResult {
  std::vector<int32_t> tokens;
  Tensor logits;  // [tokens, vocabulary], where asked for
  Profile profile;
};

// A step that was started.
class PendingStep {
 public:
  PendingStep(PendingRun run, bool logits) : run_(std::move(run)), logits_(logits) {}
  StepResult finish();  // waits; once

 private:
  PendingRun run_;
  bool logits_;
};

// A model on a device. One thread at a time may use it.
class Runner {
 public:
  // Loads the plans of step_sizes() and uploads the weights.
  Runner(const Device& device, std::shared_ptr<const Model> model);

  const Model& model() const { return *model_; }
  Memory& memory() { return memory_; }
  TextMemory allocated() const;

  // Rows of one sequence, at most a chunk: a token behind the last of them.
  StepResult prefill(const std::vector<StepRow>& rows, const Choice& choice, bool logits = false) {
    return start_prefill(rows, choice, logits).finish();
  }
  // A row and a token for each sequence.
  StepResult decode(const std::vector<StepRow>& rows, const std::vector<Choice>& choices, bool logits = false) {
    return start_decode(rows, choices, logits).finish();
  }
  // The same, given to the device: another step may be started before this one is finished.
  PendingStep start_prefill(const std::vector<StepRow>& rows, const Choice& choice, bool logits = false);
  PendingStep start_decode(const std::vector<StepRow>& rows, const std::vector<Choice>& choices, bool logits = false);
  // f32 [rows, vocabulary], or [rows, width] of the last layer's normed values.
  Tensor logits(const std::vector<StepRow>& rows) { return values(rows, StepKind::Logits, "logits"); }
  Tensor normed(const std::vector<StepRow>& rows) { return values(rows, StepKind::Normed, "normed"); }
  int64_t rows_of_values() const;  // that the last two take at once, at most

  // Says which tokens a sequence has, for the repetition penalty.
  void set_seen(int64_t sequence, const std::vector<int32_t>& tokens);

 private:
  Executor& executor(int64_t rows, StepKind kind);
  static PendingStep started(Executor& executor, const std::map<std::string, Tensor>& inputs, RunOptions options,
                             bool logits);
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
