#pragma once
#include <cstdint>
#include <vector>

#include "gyrus/text.h"

// What a step of a model takes and gives.

namespace gyrus::llm {

enum class StepKind : uint8_t {
  Last,    // a token for one of its rows (argument "last")
  Each,    // a token for each of its rows
  Logits,  // the logits behind each row
  Normed,  // the normed values of the last layer
};

// A token on its way through the model. A negative position: a row that is not used. A negative token: -1 - i is the
// token that the step before chose as its i-th.
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

// The inputs of a step: "rows" i32 [rows, 4] (ops/cache.h), with rows behind those given that are not used, and
// "params" i32 [choices, 8] (ops/choose.h). Throws InvalidInput on a position outside the cache.
Tensor row_table(const std::vector<StepRow>& rows, int64_t count, const TextOptions& options);
Tensor choice_table(const std::vector<Choice>& choices);

// The numbers of rows for which plans are made: one, a few, and a chunk.
std::vector<int64_t> step_sizes(const TextOptions& options);
// The least of them that takes so many rows; throws InvalidInput where there is none.
int64_t step_size(const TextOptions& options, size_t rows);
// Rows whose logits a step gives at once, at most.
int64_t rows_of_values(const TextOptions& options, int64_t vocabulary);

}  // namespace gyrus::llm
