#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// A language model as `gyrus serve` and `gyrus chat` know it; tests have one that needs no GPU.

namespace gyrus::cli {

struct CompletionOptions {
  int64_t tokens = 0;  // at most; 0: as many as the context holds
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 1, min_p = 0, repetition_penalty = 1;
  uint32_t seed = 0;
  int64_t candidates = -1;  // log-probabilities of so many best tokens and of the chosen one; −1: none
};

struct CompletionToken {
  int32_t token = 0;                                    // -1: none, but text that was held back until the end
  std::string text;                                     // that became whole with it
  std::vector<std::pair<int32_t, float>> candidates{};  // the token itself, then the best ones
};

struct CompletionEnd {
  bool ended = false;  // the model ended the text, or on_token did; else there was no more room
  int64_t tokens = 0;
  double prompt_seconds = 0, seconds = 0;
};

// Used by one thread at a time, except for what is const.
class TextService {
 public:
  virtual ~TextService() = default;
  virtual std::string name() const = 0;
  virtual int64_t context() const = 0;                                    // tokens, prompt and answer together
  virtual std::string chat_template() const = 0;                          // empty where there is none
  virtual std::pair<std::string, std::string> begin_and_end() const = 0;  // the texts of these tokens
  virtual std::vector<int32_t> tokenize(const std::string& text, bool special, bool begin) const = 0;
  virtual std::string text_of(const std::vector<int32_t>& tokens) const = 0;
  // Goes on behind a prompt; false from on_token ends it.
  virtual CompletionEnd complete(const std::vector<int32_t>& prompt, const CompletionOptions& options,
                                 const std::function<bool(const CompletionToken&)>& on_token) = 0;
  virtual std::vector<float> embed(const std::vector<int32_t>& tokens) = 0;
};

}  // namespace gyrus::cli
