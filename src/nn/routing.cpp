#include "gyrus/routing.h"

#include "core/error.h"
#include "gyrus/nn.h"

namespace gyrus {
namespace {

void check_gate(Value logits, const GateOptions& o) {
  if (!logits || logits.shape().size() != 2 || logits.dtype() != DType::F32)
    fail(ErrorCode::InvalidGraph, "top_k_gate", "expected logits of f32 [M,E]");
  const int64_t experts = logits.shape()[1];
  if (o.groups < 1 || experts % o.groups != 0 || o.top_groups < 1 || o.top_groups > o.groups)
    fail(ErrorCode::InvalidGraph, "top_k_gate", experts, " experts, the best ", o.top_groups, " of ", o.groups,
         " groups: expected groups of equal size, and not more chosen than there are");
  if (o.top_k < 1 || o.top_k > o.top_groups * (experts / o.groups))
    fail(ErrorCode::InvalidGraph, "top_k_gate", "top_k is ", o.top_k, " of ", o.top_groups * (experts / o.groups),
         " experts that may be chosen");
  if (o.group_score == GroupScore::SumOfTwo && experts / o.groups < 2)
    fail(ErrorCode::InvalidGraph, "top_k_gate", "groups of one expert have no two scores to add");
  if (o.bias && o.bias.shape() != Shape{experts})
    fail(ErrorCode::InvalidGraph, "top_k_gate", "bias is ", to_string(o.bias.shape()), ", expected ",
         to_string(Shape{experts}));
}

// Scores of experts outside the best groups become the lowest number.
Value within_groups(Value choice, const GateOptions& o) {
  const int64_t rows = choice.shape()[0], size = choice.shape()[1] / o.groups;
  const Value grouped = reshape(choice, {rows, o.groups, size});
  const Value score = o.group_score == GroupScore::Largest ? reduce_max(grouped, {{2}})
                                                           : reduce_sum(top_k(grouped, 2, 2).values, {{2}});
  const Value best = top_k(score, o.top_groups, 1).positions;
  const Value taken = reduce_sum(one_hot(best, o.groups), {{1}});
  const Value kept = greater(reshape(taken, {rows, o.groups, 1}), scalar(choice, 0.5));
  return reshape(where(kept, grouped, scalar(choice, -3.4028234663852886e38)), choice.shape());
}

}  // namespace

Value group_rows(Value expert, int64_t experts) {
  if (expert && expert.dtype() == DType::I64) expert = cast(expert, DType::I32);
  return apply("group_rows", {expert}, {{"groups", experts}});
}

Value grouped_matmul(Value x, Value weight, Value groups, bool transpose) {
  return apply("grouped_matmul", {x, weight, groups}, {{"transpose", int64_t{transpose}}});
}

Gate top_k_gate(Value logits, const GateOptions& options) {
  check_gate(logits, options);
  const Value scores = options.score == GateScore::Softmax ? softmax(logits, 1) : sigmoid(logits);
  Value choice = options.bias ? scores + options.bias : scores;
  if (options.top_groups < options.groups) choice = within_groups(choice, options);
  const Value experts = top_k(choice, options.top_k, 1).positions;
  Value weights = gather_elements(scores, experts, 1);
  if (options.renormalize) weights = weights / (reduce_sum(weights, {{1}, true}) + 1e-20);
  return {options.scale == 1 ? weights : weights * options.scale, experts};
}

}  // namespace gyrus
