#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "import/gguf.h"

namespace gyrus::llm {

// How the frequencies of rotary embedding are stretched for long contexts.
struct RopeScaling {
  std::string type = "none";  // or "linear", "yarn"; factors of single frequencies come as a tensor
  double factor = 1;
  double original_context = 0;
  double attention_factor = 1;  // times cosines and sines
  double fast = 32, slow = 1;   // yarn: turns within the original context between which it blends
};

// Which of the last layer's values are the embedding of a text.
enum class Pooling : uint8_t { Mean, First, Last };
const char* pooling_name(Pooling pooling);

// The shape of a decoder, as the metadata of its file says it.
struct Config {
  std::string architecture, name;
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, depth = 0, hidden = 0, vocabulary = 0, context = 0;
  double eps = 1e-5;
  bool layer_norm = false;  // with means and biases, else root mean square
  bool positions = false;   // learned ones, added to the embedding, and no rotation

  bool halves = false;  // element i turns with i + turning / 2, else neighbours turn
  int64_t turning = 0;  // elements of a head that turn
  double rope_base = 10000;
  double local_base = 0;  // of layers with a window, without scaling; 0: as the others
  RopeScaling scaling;

  double embedding_scale = 1;
  double attention_scale = 0;
  double attention_cap = 0, final_cap = 0;  // c tanh(x / c); 0: none
  int64_t window = 0;                       // keys that layers with a window see; 0: none has one
  int64_t window_period = 1;                // of so many layers the last one sees all; 1: every layer has the window

  std::string act = "silu";
  bool gated = true;
  bool post_norms = false;  // behind attention and behind the network, before they are added

  int64_t experts = 0, experts_used = 0;  // 0: one network for all
  int64_t expert_hidden = 0;
  bool experts_normed = true;  // the shares of those used add up to 1
  std::vector<bool> routed;    // for each layer whether it has experts; empty: as its tensors say

  Pooling pooling = Pooling::Mean;

  bool is_local(int64_t layer) const;
};

// Throws Unsupported, naming an architecture or a setting that gyrus does not have; InvalidModel where keys are missing
// or contradict one another.
Config read_config(const Gguf& file);

// The architectures that read_config knows.
std::vector<std::string> architectures();

// Radians per position of each pair that turns; `factors` divide them, where there are any.
std::vector<double> rope_speeds(const Config& config, bool local, const std::vector<float>& factors);

}  // namespace gyrus::llm
