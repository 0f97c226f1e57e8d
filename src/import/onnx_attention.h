#pragma once
#include "import/onnx_ops.h"

namespace gyrus::onnx {

// softmax(softcap(scale · q kᵀ) + bias) v of q [B,Hq,S,D], k [B,Hkv,L,D], v [B,Hkv,L,Dv] with Hq a multiple of Hkv;
// `bias` broadcasts to [B,Hq,S,L] and may be absent.
struct Attended {
  Val y;                             // [B,Hq,S,Dv]
  Val raw, capped, biased, weights;  // [B,Hq,S,L], in the order in which they are made
};
Attended attend(Val q, Val k, Val v, Val bias, double scale, double softcap);
// The same where nobody asks for the scores, as one op.
Val attend_whole(Val q, Val k, Val v, Val bias, double scale, double softcap);

// 0 where query i may see key j, j <= i + past (and j > i + past - window where there is one), else -inf: f32 [S,L].
Val causal_bias(Graph& graph, int64_t queries, int64_t keys, int64_t past, int64_t window = -1);

// [B,S,H·D] → [B,H,S,D] and back.
Val split_heads(Val x, int64_t heads);
Val join_heads(Val x);

// x [B,H,S,D] turned in pairs by cos and sin [B or 1,1,S,D/2]; the first `dim` elements of each row.
Val rotate(Val x, Val cos, Val sin, int64_t dim, bool interleaved);

}  // namespace gyrus::onnx
