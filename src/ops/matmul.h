#pragma once
#include "graph/op.h"

namespace gyrus {

// a [batch…,M,K] · b [batch…,K,N] + bias [N] or none → [batch…,M,N], floats; batch axes broadcast as in numpy. With
// transpose_a = 1 the last two axes of a are [K,M], with transpose_b = 1 those of b are [N,K]. May carry a body behind
// the sum with the bias.
struct Matmul {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  Shape batch;  // of the result
};
// From the attributes of the node and the shapes of a and b; throws InvalidGraph where they do not fit.
Matmul matmul_of(const Node& node, const Shape& a, const Shape& b);

extern const OpDef kMatmul;

}  // namespace gyrus
