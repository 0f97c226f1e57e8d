// One line for every op with a kernel of its own.
#include <unordered_map>

#include "cpu/kernel.h"
#include "ops/attention.h"
#include "ops/blocks.h"
#include "ops/concat.h"
#include "ops/conv.h"
#include "ops/conv_backward.h"
#include "ops/expand.h"
#include "ops/frames.h"
#include "ops/fused.h"
#include "ops/gather.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/pad.h"
#include "ops/recurrences.h"
#include "ops/recurrent.h"
#include "ops/reduce.h"
#include "ops/rows.h"
#include "ops/scan.h"
#include "ops/slice.h"
#include "ops/strided.h"
#include "ops/transpose.h"
#include "ops/update_slice.h"

namespace gyrus::cpu {
namespace {

using Table = std::unordered_map<const OpDef*, Prepare>;

// What programs may be built without, which then have no code of it.
Table with_optional_ones(Table kernels) {
  if constexpr (kPacked) {
    kernels.emplace(&kBlockMatmul, prepare_block_product);
    kernels.emplace(&kBlockRows, prepare_block_rows);
  }
  if constexpr (kTraining) kernels.emplace(&kConvWeights, prepare_conv_weights);
  return kernels;
}

const Table& table() {
  static const Table kernels = with_optional_ones({
      {&kSelectiveScan, prepare_selective_scan},
      {&kDeltaRule, prepare_delta_rule},
      {&kConv, prepare_convolution},
      {&kConvArgmax, prepare_conv_argmax},
      {&kNormStats, prepare_norm_stats},
      {&kNormApply, prepare_norm_apply},
      {&kMatmul, prepare_product},
      {&kTranspose, prepare_movement},
      {&kSlice, prepare_movement},
      {&kStrided, prepare_movement},
      {&kConcat, prepare_movement},
      {&kPad, prepare_movement},
      {&kExpand, prepare_movement},
      {&kRows, prepare_rows},
      {&kReduceSum, prepare_reduction},
      {&kReduceMean, prepare_reduction},
      {&kReduceMax, prepare_reduction},
      {&kReduceMin, prepare_reduction},
      {&kArgmax, prepare_argmax},
      {&kGather, prepare_gather},
      {&kUpdateSlice, prepare_update_slice},
      {&kAttention, prepare_attention},
      {&kCumsum, prepare_scan},
      {&kCumprod, prepare_scan},
      {&kCummax, prepare_scan},
      {&kLinearScan, prepare_scan},
      {&kLstmSteps, prepare_recurrent},
      {&kGruSteps, prepare_recurrent},
      {&kFrames, prepare_movement},
  });
  return kernels;
}

}  // namespace

Prepared prepare(const Graph& graph, const Node& node, const KernelOptions& options) {
  const OpDef& def = op(node.op);
  if (def.elementwise || def.body_only) return prepare_elementwise(graph, node, options);
  const auto found = table().find(&def);
  return found == table().end() ? prepare_generic(graph, node, options) : found->second(graph, node, options);
}

}  // namespace gyrus::cpu
