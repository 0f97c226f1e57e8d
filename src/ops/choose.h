#pragma once
#include "graph/op.h"

namespace gyrus {

// The next token of each row of scores f32 [rows, width], i32 [rows]. params i32 [rows, 8]: temperature (bits of f32),
// top_k, top_p (bits), min_p (bits), repetition penalty (bits), seed, step, row of `seen`. seen u32 [sequences, width]
// or none: not 0 where the sequence has the token. Scores of those are divided by the penalty where positive, else
// multiplied. Temperature 0: the largest score. Else the largest of score / temperature + noise among the top_k best
// (0: all), of these the best that have the share top_p together, of these those with min_p of the best one's
// probability; noise is Gumbel's, by Threefry of (token, step) under the key (seed, "toke"). -1 where a score is not
// finite.
extern const OpDef kChooseToken;

// rows i32 [count, 4] (ops/cache.h) with the tokens of those that have none yet: -1 - i stands for chosen[i], of
// i32 [slots]. So a step can be given to the device before the token of the one before it is known.
extern const OpDef kChosenRows;

// seen with a 1 at [sequence, token] of every active row (ops/cache.h). In place.
extern const OpDef kMarkTokens;

}  // namespace gyrus
