#pragma once
#include "graph/op.h"

// The two convolutions of a backward pass.

namespace gyrus {

// conv_transpose(x [N,C,sp…], weight [C,O/groups,k…], bias [O]?) {stride, dilation, pads, output_padding, groups}: the
// gradient of a convolution in its input: y[n, o, i stride - before + t dilation] += x[n,c,i] weight[c,o,t].
// output_padding adds positions at the end of each axis; pads may be negative.
extern const OpDef kConvTranspose;

// conv_weights(x [N,C,sp…], g [N,O,sp…]) {kernel, stride, dilation, pads, groups}: the gradient of a convolution of x
// in its weights, where g is that of its result: [O,C/groups,kernel…].
extern const OpDef kConvWeights;

// The gradient of a convolution, by these two.
std::vector<Value> conv_gradient(const Backward& back);

}  // namespace gyrus
