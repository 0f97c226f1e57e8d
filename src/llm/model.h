#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gyrus/graph.h"
#include "gyrus/text.h"
#include "llm/config.h"
#include "llm/step_kind.h"
#include "ops/blocks.h"

// A decoder as graphs: one for each number of rows of a step and each kind of result. Weights and caches are states, so
// that all of them share one Memory.

namespace gyrus::llm {

// A tensor of a model's file: what it is, and where its bytes are.
struct Source {
  BlockType type = BlockType::F32;
  Shape shape;  // slowest axis first
  Bytes data;   // empty where only shapes are known
};
using Sources = std::function<std::optional<Source>(const std::string& name)>;

// A range of bytes of a state, as it is filled once.
struct WeightPart {
  std::string tensor;
  uint64_t offset = 0;  // in the state
  bool floats = false;  // unpacked to f32 first: norms and biases
};

struct WeightState {
  std::string name;
  TensorType type;
  std::vector<WeightPart> parts;
};

// Inputs of a step: "rows" and "params", the tables of step_kind.h; state "chosen": the tokens of the last step, for
// rows whose token is not known yet (kChosenRows). Results: "tokens" i32, capture "logits"; or "logits" f32 [rows,
// vocabulary]; or "normed" f32 [rows, width].
class Model {
 public:
  // Reads the tensors' shapes; throws InvalidModel, naming one that is absent or has another shape.
  Model(Config config, Sources sources, const TextOptions& options, std::string subject);

  const Config& config() const { return config_; }
  const TextOptions& options() const { return options_; }
  Graph step(int64_t rows, StepKind kind) const;

  const std::vector<WeightState>& weights() const { return weights_; }
  // The bytes of a part of a weight, from the file or unpacked into `unpacked`.
  Bytes bytes(const WeightPart& part, std::vector<std::byte>& unpacked) const;
  uint64_t weight_bytes() const;  // of all states of weights
  TextModelInfo info() const;

 private:
  // Matrices whose results follow one another, in as few states as their formats allow.
  struct Product {
    struct Matrix {
      std::string state;
      BlockMatrix matrix;
    };
    std::vector<Matrix> matrices;
    std::string bias;  // state; empty: none
    int64_t experts = 1;
  };
  struct Norm {
    std::string gamma, beta;
  };
  struct Layer {
    Norm attention_norm, ffn_norm, attention_post, ffn_post;
    std::string head_norms;
    Product qkv, out, router, up, down, gate_up;
  };
  class Builder;

  Source source(const std::string& name) const;
  bool has(const std::string& name) const { return sources_(name).has_value(); }
  std::string vector(const std::string& state, const std::vector<std::string>& tensors, const Shape& shape);
  Norm norm(const std::string& name);
  Product product(const std::string& state, const std::vector<std::string>& names, const std::vector<int64_t>& rows,
                  int64_t columns, int64_t experts = 1);
  // The same of every expert: of the one tensor that holds all, or of one for each ("ffn_up.3.weight").
  Product expert_product(const std::string& at, const std::string& part, int64_t rows, int64_t columns);
  bool is_routed(int64_t layer) const;
  Layer layer(int64_t index);
  void read_rope();

  Config config_;
  Sources sources_;
  TextOptions options_;
  std::string subject_;
  std::vector<WeightState> weights_;
  std::vector<Layer> layers_;
  Product embedding_, positions_, output_;
  Norm output_norm_;
  std::vector<float> rope_factors_;
};

// Throws Unsupported where a file has a tensor that the model does not use: then it is another kind of model.
void refuse_unused(const Model& model, const Gguf& file);

// What a file says, of the context that `options` ask for.
TextOptions with_context(TextOptions options, const Config& config, const std::string& subject);

}  // namespace gyrus::llm
