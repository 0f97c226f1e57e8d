#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/device.h"
#include "gyrus/memory.h"
#include "gyrus/tensor.h"

// Language models: a GGUF file, or a folder with config.json and safetensors, in, text out (docs/text.md). Weights stay
// in the blocks of the file, on the device; the cache of keys and values has a fixed size, and a token costs one
// submission.

namespace gyrus {

// How keys and values are kept: in singles, halves or bytes with a scale for each head.
enum class CacheFormat : uint8_t { F32, F16, Q8 };
const char* to_string(CacheFormat format);

struct TextOptions {
  int64_t context = 0;    // tokens of a sequence that the cache holds; 0: as the model says, at most 4096
  int64_t sequences = 1;  // that it holds at once
  int64_t chunk = 256;    // tokens of a prompt that go through at once, at most
  CacheFormat cache = CacheFormat::F32;
  // F16: what matrix units multiply, where the device was opened with some, is rounded to halves: prompts of more than
  // a few tokens. Sums are f32, and all else is as it is with F32.
  Precision precision{};
  MatrixUse matrix = MatrixUse::Auto;
  std::optional<Limits> limits{};  // that plans keep, where that is to be less than the device has
};

// How the next token is chosen. What is at its default changes nothing.
struct Sampling {
  double temperature = 0;  // 0: the best one
  int64_t top_k = 0;       // among so many best ones; 0: all
  double top_p = 1;        // among the best ones that have this share of the probability together
  double min_p = 0;        // among those at least so probable as this share of the best one
  double repetition_penalty =
      1;  // of tokens that the sequence has already: divides a positive score, multiplies others
  uint32_t seed = 0;
};

// What a token got: its natural logarithm of probability before any sampling option.
struct TokenScore {
  int32_t token = 0;
  float log_probability = 0;
};

struct GeneratedToken {
  int32_t token = 0;                   // -1: none, but text that was held back until the end
  std::string text;                    // that became whole with it: UTF-8, never a part of a character
  std::vector<TokenScore> candidates;  // the token itself, then the best ones, where asked for
};

struct GenerateOptions {
  int64_t tokens = 256;  // at most
  Sampling sampling{};
  std::vector<std::string> stop{};  // generation ends before the first of these texts
  int64_t candidates = -1;          // log-probabilities of so many best tokens and of the chosen one; -1: none
  int64_t keep = 0;         // tokens from the start that stay where the context is full and its older half is dropped
  bool shift = true;        // drop them; else generation ends where the context is full
  bool ignore_end = false;  // go on behind a token that ends a text
  int64_t sequence = 0;     // of the cache
  std::function<bool(const GeneratedToken&)> on_token{};  // called for every token; returning false ends it
  const std::atomic<bool>* cancel = nullptr;
};

enum class Finish : uint8_t { Length, Stop, End, Cancelled };  // End: a token that ends a text
const char* to_string(Finish finish);

struct Generated {
  std::string text;                    // without the prompt
  std::vector<GeneratedToken> tokens;  // without one that ended it
  Finish finish = Finish::Length;
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;    // of the prompt that the cache held already
  double prompt_seconds = 0;    // until the first token was chosen
  double generate_seconds = 0;  // for the others
};

// What a model takes on a device, to the byte.
struct TextMemory {
  uint64_t weights = 0;  // bytes
  uint64_t cache = 0;
  uint64_t scratch = 0;  // of the plans of a token and of a chunk: values, constants, parameters
  uint64_t total() const { return weights + cache + scratch; }
};

// What stands in the head of a file.
struct TextModelInfo {
  std::string architecture, name;
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_width = 0, vocabulary = 0;
  int64_t context = 0;  // that it was trained for
  int64_t parameters = 0;
  std::map<std::string, uint64_t> formats;  // bytes of weights in each
};

TextModelInfo describe_text_model(const std::string& path);
// The plans of a model for a target, without a device. Throws what the planner throws.
TextMemory plan_text_model(const std::string& path, const Target& target, const TextOptions& options = {});

struct TextGeneratorImpl;

// A language model on a device. Copies are the same generator. Any thread may call it; calls take turns.
class TextGenerator {
 public:
  // Maps the file and uploads its weights. Throws InvalidModel, Unsupported (architectures and tokenizers by name),
  // OverLimits, Device or Io.
  TextGenerator(const Device& device, const std::string& path, const TextOptions& options = {});

  const TextModelInfo& info() const;
  const TextOptions& options() const;  // as they came out: with the context filled in
  TextMemory memory() const;           // as allocated
  // The model's chat template as its file has it; empty where it has none.
  const std::string& chat_template() const;

  // `special`: texts of control tokens are those tokens, as in the output of a chat template. `begin`: with the token
  // that begins a text, where the model wants one.
  std::vector<int32_t> tokenize(const std::string& text, bool special = false, bool begin = true) const;
  std::string text_of(const std::vector<int32_t>& tokens, bool special = false) const;
  bool ends_text(int32_t token) const;

  // Goes on behind a prompt. What the prompt shares with the start of what the sequence holds already is not computed
  // again.
  Generated generate(const std::string& prompt, const GenerateOptions& options = {});
  Generated generate(const std::vector<int32_t>& prompt, const GenerateOptions& options = {});
  // Several prompts at once, each in a sequence of its own (options.sequence is not looked at), a token of all of them
  // in one submission.
  std::vector<Generated> generate_batch(const std::vector<std::vector<int32_t>>& prompts,
                                        const std::vector<GenerateOptions>& options);

  // The logits behind each of these tokens, f32 [tokens, vocabulary].
  Tensor logits(const std::vector<int32_t>& tokens, int64_t sequence = 0);
  // The mean over the tokens of the last layer's normed values, or the first or last of them, as the file says; of
  // length 1. Throws NonFinite where a value is none.
  std::vector<float> embed(const std::vector<int32_t>& tokens, int64_t sequence = 0);
  // Forgets what a sequence holds.
  void forget(int64_t sequence = 0);

 private:
  std::shared_ptr<TextGeneratorImpl> impl_;
};

}  // namespace gyrus
