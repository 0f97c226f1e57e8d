#pragma once
#include "graph/op.h"

// Cross-correlation over 1 to 3 spatial axes: x [N,C,sp…], w [O,C/groups,k…], bias [O] or none → [N,O,sp…].

namespace gyrus {

struct ConvAttrs {
  std::vector<int64_t> stride;    // one each spatial axis
  std::vector<int64_t> dilation;  // one each spatial axis
  std::vector<int64_t> pad_lo;    // zeros before the first voxel of each axis
  std::vector<int64_t> pad_hi;    // zeros after the last
  int64_t groups = 1;
  bool stats = false;        // conv: also gives f32 [N,O,2], mean and population variance over the voxels
  DType argmax = DType::U8;  // conv_argmax: the element type of the labels
};

// The attributes of a conv or conv_argmax node; throws InvalidGraph where they are malformed.
ConvAttrs conv_attrs(const Node& node, size_t spatial_rank);

// May carry a body, applied to the result; not together with stats, which are of the raw result.
extern const OpDef kConv;
// The output channel with the largest value, the lowest of equal ones: [N,sp…] of attribute dtype, "u8" or "u32".
extern const OpDef kConvArgmax;

// The convolution itself in doubles; the shape of `out` must be set and its data sized.
void convolve(const Node& node, const std::vector<const RefTensor*>& inputs, RefTensor& out);

}  // namespace gyrus
