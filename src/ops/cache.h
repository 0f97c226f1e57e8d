#pragma once
#include "graph/op.h"

// Attention over a cache of keys and values that keeps its place. A step has rows, i32 [rows, 4]: the token, the row of
// the cache at which its sequence begins, its position there (negative: the row is not active), and its sequence.

namespace gyrus {

inline constexpr int64_t kStepColumns = 4;

// Cosines and sines of position * speeds [half], in pairs, times `scale` (1), then the first row of the sequence and
// the position: f32 [rows, 2 half + 2].
extern const OpDef kRopeTurns;

// Attributes that the two ops below share. Heads of queries, then of keys, then of values lie side by side.
struct CacheAttrs {
  int64_t rows = 0, heads = 0, kv_heads = 0, depth = 0;
  int64_t half = 0;  // pairs that turn
  int64_t cache_rows = 0;
  int64_t row_units = 0;  // of the cache: elements, of a cache of bytes words
  int64_t head_units = 0;
  int64_t width() const { return (heads + 2 * kv_heads) * depth; }
};
CacheAttrs cache_attrs(const Node& node, const std::vector<TensorType>& inputs);
// The shape of a cache with so many rows; dtype F32, F16, or U32 for bytes with a scale for each head.
Shape cache_shape(DType dtype, int64_t rows, int64_t kv_heads, int64_t depth);

// x f32 [rows, (heads + 2 kv_heads) depth], cache, turns, gamma f32 [2, depth] or none: x with queries and keys normed
// (where gamma is there; eps = 1e-6) and turned, and the cache with the keys and values of active rows at first +
// position. `heads`, `kv_heads`; halves = 1: element i turns with i + half, else neighbours turn. In place.
extern const OpDef kCacheRows;

// Of that x, that cache and turns: f32 [rows, heads depth], softmax(q · k scale) v over the keys up to the row's
// position; `scale`, `softcap` (0: none), `window` (0: all; else so many last keys). Rows that are not active give
// zeros.
extern const OpDef kCachedAttention;

}  // namespace gyrus
