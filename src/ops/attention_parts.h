#pragma once
#include "graph/op.h"

namespace gyrus {

// Where `last` ends what attention does, softmax(scale q kᵀ + bias) v, as exporters write it: the attention over values
// of the new graph. Scale by constants, on q, k or the scores; bias and mask (a where with a constant) optional; axes
// before the last two none, one or two; heads of k and v repeated for those of q. kNoValue where it is something else,
// where a part is read by others, or where heads are larger than the kernel is good at.
ValueId attention_from_parts(Rewriter& rewrite, const Node& last);

}  // namespace gyrus
