// One line for every op that reaches the planner.
#include "plan/lowerings.h"

#include <unordered_map>

#include "core/error.h"
#include "ops/arrange.h"
#include "ops/concat.h"
#include "ops/conv.h"
#include "ops/expand.h"
#include "ops/gather.h"
#include "ops/indexing.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/order.h"
#include "ops/pad.h"
#include "ops/reduce.h"
#include "ops/repack.h"
#include "ops/reshape.h"
#include "ops/rows.h"
#include "ops/slice.h"
#include "ops/transpose.h"
#include "ops/update_slice.h"

namespace gyrus {
namespace {

const LoweringEntry kLowerings[] = {
    {&kReshape, lower_alias},
    {&kTranspose, lower_mapped},
    {&kSlice, lower_mapped},
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
    {&kMatmul, lower_matmul},
    {&kGather, lower_gather},
    {&kUpdateSlice, lower_update_slice},
    {&kScatterRows, lower_scatter_rows},
    {&kRanks, lower_ranks},
    {&kRows, lower_rows},
    {&kPlace, lower_place},
    {&kConv, lower_conv, order_conv},
    {&kConvArgmax, lower_conv_argmax, order_conv_argmax},
    {&kNormStats, lower_norm_stats},
    {&kNormApply, lower_norm_apply},
};

}  // namespace

const LoweringEntry& lowering_of(const Node& node) {
  static const LoweringEntry elementwise{nullptr, lower_elementwise};
  static const std::unordered_map<const OpDef*, const LoweringEntry*> table = [] {
    std::unordered_map<const OpDef*, const LoweringEntry*> map;
    for (const LoweringEntry& entry : kLowerings) map.emplace(entry.op, &entry);
    return map;
  }();
  const OpDef& def = op(node.op);
  const auto found = table.find(&def);
  if (found != table.end()) return *found->second;
  if (def.elementwise || def.body_only) return elementwise;
  fail(ErrorCode::InvalidGraph, node.op, "reached the planner; run the passes first");
}

void lower_alias(Lowering& lowering, const Node& node) {
  lowering.set_storage(node.outputs[0], lowering.storage(node.inputs[0]));
}

}  // namespace gyrus
