#include <unordered_map>

#include "core/error.h"
#include "graph/op.h"
#include "ops/activation.h"
#include "ops/affine_clamp.h"
#include "ops/batch_norm.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/concat.h"
#include "ops/conv.h"
#include "ops/expand.h"
#include "ops/fused.h"
#include "ops/norm.h"
#include "ops/pad.h"
#include "ops/reduce.h"
#include "ops/repack.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/transpose.h"
#include "ops/unary.h"

namespace gyrus {

const std::vector<const OpDef*>& all_ops() {
  static const std::vector<const OpDef*> ops = {
      &kConv,      &kConvArgmax, &kNormStats, &kNormApply, &kGroupNorm, &kInstanceNorm, &kBatchNorm, &kRelu,
      &kLeakyRelu, &kElu,        &kGelu,      &kSilu,      &kSigmoid,   &kTanh,         &kSoftplus,  &kExp,
      &kLog,       &kSqrt,       &kRsqrt,     &kNeg,       &kAbs,       &kSquare,       &kAdd,       &kSub,
      &kMul,       &kDiv,        &kMin,       &kMax,       &kPow,       &kAffineClamp,  &kCast,      &kFused,
      &kReshape,   &kTranspose,  &kSlice,     &kConcat,    &kPad,       &kExpand,       &kReduceSum, &kReduceMean,
      &kReduceMax, &kReduceMin,  &kArgmax,    &kSoftmax,   &kRepack,
  };
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
