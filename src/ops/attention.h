#pragma once
#include "graph/op.h"

namespace gyrus {

// softmax(scale q kᵀ) v: q [B,H,Sq,D], k [B,Hk,Sk,D], v [B,Hk,Sk,Dv] → [B,H,Sq,Dv] in f32; query head h reads head h Hk
// / H. Then, optional, a mask of truth values, true where a key is seen, and a bias that is added to the scores; both
// broadcast to [B,H,Sq,Sk]; hidden = h: keys that the mask hides have the score h instead of not being seen. The last
// query stands at the last key; causal = 1: it sees keys up to its own place; window = w > 0: keys less than w away.
// scale is 1/sqrt(D) by default; softcap = c > 0 makes scores c tanh(s / c) before the bias. A query that sees no key
// gives zeros.
extern const OpDef kAttention;

struct AttentionAttrs {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 0, keys = 0, depth = 0, value_depth = 0;
  bool causal = false;
  int64_t window = 0;
  double scale = 1, softcap = 0, hidden = 0;
  // Whether a query may see a key, by their places alone.
  bool sees(int64_t query, int64_t key) const;
};
AttentionAttrs attention_attrs(const Node& node, const Shape& q, const Shape& k, const Shape& v);

}  // namespace gyrus
