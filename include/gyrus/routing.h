#pragma once
#include <cstdint>

#include "gyrus/ops.h"

// Mixtures of experts: which experts a token takes, and products with the matrix of each row's expert.

namespace gyrus {

// Rows by expert, for any number of products with them: expert [M] of integers below `experts`. An index outside stops
// the run with InvalidInput.
Value group_rows(Value expert, int64_t experts);
// y[m] = x[m] weight[expert of m]: x [M,K], weight [E,K,N] (transpose: [E,N,K]), groups from group_rows; f32.
Value grouped_matmul(Value x, Value weight, Value groups, bool transpose = false);

// The experts of each token by its scores [M,E]: the top_k largest, looked for only in the top_groups best of as many
// equal groups of experts, and their weights.
enum class GateScore : uint8_t { Softmax, Sigmoid };
enum class GroupScore : uint8_t { Largest, SumOfTwo };  // of the scores of a group
struct GateOptions {
  int64_t top_k = 1;
  int64_t groups = 1, top_groups = 1;
  GateScore score = GateScore::Softmax;
  GroupScore group_score = GroupScore::Largest;
  Value bias{};             // [E], added to the scores for the choice alone
  bool renormalize = true;  // weights of a token are divided by their sum
  double scale = 1;         // weights are multiplied with it, behind that
};
struct Gate {
  Value weights;  // [M,top_k], the largest score first
  Value experts;  // the same, i32
};
Gate top_k_gate(Value logits, const GateOptions& options);

}  // namespace gyrus
