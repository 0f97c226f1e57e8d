#pragma once
#include "graph/op.h"

// Normalisation in two steps: statistics of each channel over its voxels, then one pass that merges the channels of a
// group and applies. group_norm and instance_norm decompose into them.

namespace gyrus {

// x [N,C,sp…] → f32 [N,C,2]: mean and population variance over the voxels of each channel.
extern const OpDef kNormStats;
// x [N,C,sp…], stats [N,C,2], gamma [C] and beta [C] or neither → (x - mean) / sqrt(var + eps) * gamma + beta with the
// mean and variance of the channel's group. May carry a body.
extern const OpDef kNormApply;
// x [N,C,sp…], g of its shape, stats [N,C,2] → f32 [N,C,2]: Σ g and Σ g (x - mean) over the voxels of each channel,
// which gradients of norms are made of.
extern const OpDef kNormSums;
extern const OpDef kGroupNorm;     // x [N,C,…], gamma and beta or neither; groups, eps = 1e-5
extern const OpDef kInstanceNorm;  // the same with every channel a group

struct NormAttrs {
  int64_t groups = 1;
  double eps = 1e-5;
};
// The attributes of a norm_apply or group_norm node.
NormAttrs norm_attrs(const Node& node, int64_t channels);

// Fills `stats` [N,C,2] from x [N,C,sp…].
void channel_stats(const RefTensor& x, RefTensor& stats);

}  // namespace gyrus
