#include <unordered_map>

#include "core/error.h"
#include "graph/op.h"
#include "ops/arrange.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/blocks.h"
#include "ops/cache.h"
#include "ops/choose.h"
#include "ops/concat.h"
#include "ops/conv.h"
#include "ops/conv_backward.h"
#include "ops/elementwise.h"
#include "ops/expand.h"
#include "ops/fft.h"
#include "ops/frames.h"
#include "ops/fused.h"
#include "ops/gather.h"
#include "ops/grouped.h"
#include "ops/in_training.h"
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

const std::vector<const OpDef*>& all_ops() {
  static const std::vector<const OpDef*> ops = [] {
    std::vector<const OpDef*> all = {
        &kConv,      &kConvArgmax,      &kNormStats,   &kNormApply,   &kGroupNorm,  &kInstanceNorm, &kBatchNorm,
        &kFused,     &kReshape,         &kTranspose,   &kSlice,       &kConcat,     &kPad,          &kExpand,
        &kReduceSum, &kReduceMean,      &kReduceMax,   &kReduceMin,   &kArgmax,     &kSoftmax,      &kRepack,
        &kMatmul,    &kGather,          &kUpdateSlice, &kArrange,     &kReduceProd, &kArgmin,       &kGatherElements,
        &kGatherNd,  &kScatterElements, &kScatterNd,   &kScatterRows, &kCumsum,     &kCumprod,      &kTopK,
        &kRanks,     &kPlace,           &kAttention,   &kLogSoftmax,  &kLayerNorm,  &kRmsNorm,      &kRows,
        &kStrided,   &kConvTranspose,   &kInTraining,  &kCummax,      &kLinearScan, &kLstmSteps,    &kGruSteps,
        &kSort,      &kSearchSorted,    &kSegmentSum,  &kAtMost,      &kNearest,    &kFuzzyWeights, &kSplatBlend,
        &kFft,       &kFrames,
    };
    if constexpr (kPacked) all.insert(all.end(), {&kBlockMatmul, &kBlockRows});
    if constexpr (kLanguage)
      all.insert(all.end(), {&kBlockNormed, &kGated, &kRopeTurns, &kCacheRows, &kCachedAttention, &kChooseToken,
                             &kChosenRows, &kMarkTokens, &kSelectiveScan, &kDeltaRule, &kDeltaStates, &kGroupRows,
                             &kGroupedMatmul, &kGroupedWeights});
    if constexpr (kTraining)
      all.insert(all.end(), {&kConvWeights, &kNormSums, &kSample, &kLstmBack, &kGruBack, &kSplatBlendBack});
    for (const OpDef& def : elementwise_ops()) all.push_back(&def);
    return all;
  }();
  return ops;
}

const OpDef* find_op(std::string_view name) {
  static const std::unordered_map<std::string_view, const OpDef*> by_name = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef* def : all_ops()) map.emplace(def->name, def);
    return map;
  }();
  const auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

const OpDef& op(std::string_view name) {
  if (const OpDef* def = find_op(name)) return *def;
  fail(ErrorCode::Unsupported, std::string(name), "there is no op of this name in gyrus");
}

}  // namespace gyrus
