#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "gyrus/text.h"
#include "llm/config.h"
#include "llm/step_kind.h"
#include "text/stop_texts.h"
#include "text/tokenizer.h"

// Texts in the making, apart from the device that runs their steps: which step comes next, and what follows from its
// result. TextGenerator drives it natively, the web package's TextGenerator through WASM.

namespace gyrus::llm {

// A step that is to be run. Last: rows of one sequence, of which the last one's token is wanted, with one choice. Each:
// a row, a choice and a token for each of several sequences.
struct WantedStep {
  StepKind kind = StepKind::Last;
  std::vector<StepRow> rows;
  std::vector<Choice> choices;
  bool logits = false;
  // Before the step: the tokens that a sequence has, for the repetition penalty.
  std::optional<std::pair<int64_t, std::vector<int32_t>>> seen;
};

// Whether a step that was foretold is the one that is wanted.
bool foretold(const WantedStep& ahead, const WantedStep& wanted);

// The texts of one call, and what the sequences of the cache hold from call to call.
class Writing {
 public:
  // `options` with the context filled in.
  Writing(Tokenizer tokenizer, int64_t vocabulary, const TextOptions& options);

  // Prompts for sequences that differ. Throws InvalidInput.
  void begin(std::vector<std::vector<int32_t>> prompts, std::vector<GenerateOptions> options);
  // Nothing once all texts are done. Throws Cancelled where that is asked for within a prompt.
  std::optional<WantedStep> next();
  // The step behind the one that next() gave, as far as it can be known before that one's tokens are: rows stand for
  // them (StepRow). Where a text ends before it is due, what next() gives then is another step.
  std::optional<WantedStep> ahead() const;
  // What the step gave: a token for each choice, and [tokens, vocabulary] where logits were asked for. Calls on_token.
  void take(const std::vector<int32_t>& tokens, const float* logits);
  // Whether every text has its first token.
  bool started() const;
  // A text ends here, by its reader's wish.
  void stop(size_t text);
  const Generated& result(size_t text) const { return texts_[text].result; }
  size_t texts() const { return texts_.size(); }

  // Throws InvalidInput where there is no token, or one that is none of the model's.
  void check_tokens(const std::vector<int32_t>& tokens) const;
  // What a sequence holds; throws InvalidInput where there is no such sequence.
  std::vector<int32_t>& held(int64_t sequence);
  int64_t context() const { return context_; }

 private:
  struct Text {
    GenerateOptions options;
    int64_t sequence = 0;
    std::vector<int32_t> tokens;  // of the sequence so far, the prompt included
    std::optional<TextDecoder> decoder;
    std::optional<StopTexts> stops;
    Generated result;
    bool started = false, done = false;
  };

  void add(std::vector<int32_t> prompt, const GenerateOptions& options);
  bool has_all_but_one(const Text& text) const;
  void read(size_t text);
  WantedStep chunk();
  WantedStep chunk_from(size_t begin) const;
  void make_room(Text& text);
  void take(Text& text, int32_t token, const float* logits);
  void end(Text& text, Finish finish);
  static Choice choice(const Text& text, int64_t ahead = 0);

  Tokenizer tokenizer_;
  int64_t vocabulary_, context_, chunk_;
  std::vector<std::vector<int32_t>> cached_;  // tokens that each sequence holds
  std::vector<Text> texts_;
  std::optional<size_t> reading_;  // the text whose tokens go into the cache now
  std::optional<std::pair<int64_t, std::vector<int32_t>>> seen_;
  std::vector<size_t> asked_;  // texts that the step under way makes tokens for; none within a prompt
  std::vector<StepRow> rows_;  // of that step
};

}  // namespace gyrus::llm
