// One line for every op that reaches the planner.
#include "plan/lowerings.h"

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "graph/rewriter.h"
#include "ops/arrange.h"
#include "ops/attention.h"
#include "ops/blocks.h"
#include "ops/cache.h"
#include "ops/choose.h"
#include "ops/concat.h"
#include "ops/conv.h"
#include "ops/conv_backward.h"
#include "ops/expand.h"
#include "ops/fft.h"
#include "ops/frames.h"
#include "ops/gather.h"
#include "ops/grouped.h"
#include "ops/indexing.h"
#include "ops/matmul.h"
#include "ops/neighbours.h"
#include "ops/norm.h"
#include "ops/order.h"
#include "ops/pad.h"
#include "ops/recurrences.h"
#include "ops/recurrent.h"
#include "ops/reduce.h"
#include "ops/repack.h"
#include "ops/reshape.h"
#include "ops/rows.h"
#include "ops/sample.h"
#include "ops/scan.h"
#include "ops/slice.h"
#include "ops/sort.h"
#include "ops/splats.h"
#include "ops/strided.h"
#include "ops/transpose.h"
#include "ops/update_slice.h"

namespace gyrus {
namespace {

const LoweringEntry kLowerings[] = {
    {&kReshape, lower_alias},
    {&kTranspose, lower_mapped},
    {&kSlice, lower_mapped},
    {&kStrided, lower_mapped},
    {&kFrames, lower_mapped},
    {&kConcat, lower_mapped},
    {&kPad, lower_mapped},
    {&kExpand, lower_mapped},
    {&kRepack, lower_repack},
    {&kReduceSum, lower_reduce_sum},
    {&kReduceMean, lower_reduce_mean},
    {&kReduceMax, lower_reduce_max},
    {&kReduceMin, lower_reduce_min},
    {&kReduceProd, lower_reduce_prod},
    {&kArgmax, lower_argmax},
    {&kArrange, lower_arrange},
    {&kAttention, lower_attention, nullptr, suits_attention},
    {&kFused, lower_elementwise, nullptr, suits_elementwise},
    {&kMatmul, lower_matmul},
    {&kGather, lower_gather},
    {&kUpdateSlice, lower_update_slice},
    {&kScatterRows, lower_scatter_rows},
    {&kRanks, lower_ranks},
    {&kRows, lower_rows, nullptr, suits_rows},
    {&kPlace, lower_place},
    {&kCumsum, lower_scan, nullptr, suits_scan},
    {&kCumprod, lower_scan, nullptr, suits_scan},
    {&kCummax, lower_scan, nullptr, suits_scan},
    {&kLinearScan, lower_scan, nullptr, suits_scan},
    {&kLstmSteps, lower_recurrent, nullptr, suits_recurrent},
    {&kGruSteps, lower_recurrent, nullptr, suits_recurrent},
    {&kSort, lower_sort, nullptr, suits_sort},
    {&kSearchSorted, lower_search_sorted},
    {&kSegmentSum, lower_segment_sum},
    {&kAtMost, lower_at_most},
    {&kNearest, lower_nearest},
    {&kFuzzyWeights, lower_fuzzy_weights},
    {&kSplatBlend, lower_splat_blend},
    {&kFft, lower_fft, nullptr, suits_fft},
    {&kConv, lower_conv, order_conv},
    {&kConvArgmax, lower_conv_argmax, order_conv_argmax},
    {&kNormStats, lower_norm_stats},
    {&kNormApply, lower_norm_apply},
};

// Of ops that only language models have.
[[maybe_unused]] const LoweringEntry kLanguageLowerings[] = {
    {&kBlockNormed, lower_block_normed, nullptr, suits_block_normed},
    {&kBlockMatmul, lower_block_matmul},
    {&kBlockRows, lower_block_rows},
    {&kGated, lower_gated},
    {&kRopeTurns, lower_rope_turns},
    {&kCacheRows, lower_cache_rows},
    {&kCachedAttention, lower_cached_attention},
    {&kChooseToken, lower_choose_token},
    {&kChosenRows, lower_chosen_rows},
    {&kMarkTokens, lower_mark_tokens},
    {&kSelectiveScan, lower_selective_scan, nullptr, suits_selective_scan},
    {&kDeltaRule, lower_delta_rule, nullptr, suits_delta},
    {&kDeltaStates, lower_delta_states, nullptr, suits_delta},
    {&kGroupRows, lower_group_rows, nullptr, suits_group_rows},
    {&kGroupedMatmul, lower_grouped_matmul, nullptr, suits_grouped},
    {&kGroupedWeights, lower_grouped_weights, nullptr, suits_grouped},
};

// Of ops that only training has: those of gradients and of augmentation.
[[maybe_unused]] const LoweringEntry kTrainingLowerings[] = {
    {&kConvWeights, lower_conv_weights, nullptr, suits_conv_weights},
    {&kNormSums, lower_norm_sums},
    {&kSample, lower_sample, nullptr, suits_sample},
    {&kLstmBack, lower_recurrent, nullptr, suits_recurrent},
    {&kGruBack, lower_recurrent, nullptr, suits_recurrent},
    {&kSplatBlendBack, lower_splat_blend_back},
};

const LoweringEntry* find_lowering(const OpDef& def) {
  static const LoweringEntry elementwise{nullptr, lower_elementwise};
  static const std::unordered_map<const OpDef*, const LoweringEntry*> table = [] {
    std::unordered_map<const OpDef*, const LoweringEntry*> map;
    for (const LoweringEntry& entry : kLowerings) map.emplace(entry.op, &entry);
    if constexpr (kLanguage)
      for (const LoweringEntry& entry : kLanguageLowerings) map.emplace(entry.op, &entry);
    if constexpr (kTraining)
      for (const LoweringEntry& entry : kTrainingLowerings) map.emplace(entry.op, &entry);
    return map;
  }();
  const auto found = table.find(&def);
  if (found != table.end()) return found->second;
  return def.elementwise || def.body_only ? &elementwise : nullptr;
}

}  // namespace

const LoweringEntry& lowering_of(const Node& node) {
  if (const LoweringEntry* entry = find_lowering(op(node.op))) return *entry;
  fail(ErrorCode::InvalidGraph, node.op, "reached the planner; run the passes first");
}

Graph fit(const Graph& graph, const Target& target, const PlanOptions& options) {
  const auto apart = [&](const Graph& g, const Node& node) {
    const LoweringEntry* entry = find_lowering(op(node.op));
    return !entry || (entry->suits && !entry->suits(g, node, target, options));
  };
  // Composites that no pass took apart are not the planner's.
  const bool all_suit = std::none_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return op(node.op).has_kernel && op(node.op).decompose && apart(graph, node);
  });
  return all_suit ? graph : take_apart(graph, "fit", apart);
}

void lower_alias(Lowering& lowering, const Node& node) {
  lowering.set_storage(node.outputs[0], lowering.storage(node.inputs[0]));
}

}  // namespace gyrus
