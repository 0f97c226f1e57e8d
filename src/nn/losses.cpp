#include "gyrus/losses.h"

#include "core/error.h"
#include "core/tensor.h"

namespace gyrus {
namespace {

Value over_elements(Value loss, LossOver over) {
  switch (over) {
    case LossOver::None: return loss;
    case LossOver::Sum: return reduce_sum(loss);
    case LossOver::Batch: return affine(reduce_sum(loss), 1 / static_cast<double>(loss.shape().at(0)), 0);
    case LossOver::Mean: break;
  }
  return reduce_mean(loss);
}

bool is_class(Value target) { return !is_float(target.dtype()); }

// Where each class is the true one, in the shape of the scores.
Value is_true(Value x, Value target, const char* loss) {
  const Shape shape = x.shape();
  Shape apart = target.shape(), line(shape.size(), 1);
  if (shape.size() < 2 || apart.size() + 1 != shape.size())
    fail(ErrorCode::InvalidGraph, loss, "scores are ", to_string(shape), " and classes ", to_string(apart),
         ": expected [N,C,…] and [N,…]");
  apart.insert(apart.begin() + 1, 1);
  line[1] = shape[1];
  Tensor classes(DType::I32, line);
  for (int64_t c = 0; c < shape[1]; ++c) classes.as<int32_t>()[c] = static_cast<int32_t>(c);
  return equal(reshape(cast(target, DType::I32), apart), x.graph().constant(std::move(classes)));
}

// [C] along axis 1.
Value by_class(Value weight, const Shape& scores) {
  Shape line(scores.size(), 1);
  line[1] = scores[1];
  return reshape(weight, line);
}

// wrong^gamma. Below 1 its slope has no end at 0, where the loss that it is multiplied with is 0.
Value focus(Value wrong, double gamma) {
  constexpr double kLeast = 1e-12;
  if (gamma > 0 && gamma < 1) wrong = max(wrong, scalar(wrong, kLeast));
  return pow(wrong, scalar(wrong, gamma));
}

Value chosen(Value where_true, Value x) { return reduce_sum(where(where_true, x, scalar(x, 0)), {{1}, false}); }

// By log-probabilities lp: l = -(1 - s) w[t] lp[t] - s/C Σ w lp.
Value class_loss(Value lp, Value target, const ClassLossOptions& options, const char* loss) {
  const Shape shape = lp.shape();
  const double smooth = options.label_smoothing, classes = static_cast<double>(shape.at(1));
  const Value weighted = options.weight ? lp * by_class(options.weight, shape) : lp;
  if (!is_class(target)) {
    const Value share = smooth == 0 ? target : affine(target, 1 - smooth, smooth / classes);
    const Value l = -reduce_sum(share * weighted, {{1}, false});
    return over_elements(l, options.over);
  }
  const Value at = is_true(lp, target, loss);
  Value l = affine(chosen(at, weighted), smooth - 1, 0);
  if (smooth != 0) l = l - affine(reduce_sum(weighted, {{1}, false}), smooth / classes, 0);
  Value counts;
  if (options.weight) counts = chosen(at, expand(by_class(options.weight, shape), shape));
  if (options.ignore_index) {
    const Value labels = cast(target, DType::I32);
    const Value ignored = equal(labels, scalar(labels, static_cast<double>(*options.ignore_index)));
    l = where(ignored, scalar(l, 0), l);
    const Value one = counts ? counts : expand(scalar(l, 1), l.shape());
    counts = where(ignored, scalar(l, 0), one);
  }
  if (options.over != LossOver::Mean || !counts) return over_elements(l, options.over);
  // Where nothing counts, a patch of the class that is ignored say, there is nothing to learn.
  const Value total = reduce_sum(counts);
  return reduce_sum(l) / where(equal(total, scalar(total, 0)), scalar(total, 1), total);
}

}  // namespace

Value cross_entropy(Value x, Value target, const ClassLossOptions& options) {
  return class_loss(log_softmax(x, 1), target, options, "cross_entropy");
}

Value nll(Value x, Value target, const ClassLossOptions& options) { return class_loss(x, target, options, "nll"); }

Value bce_with_logits(Value x, Value target, const BinaryLossOptions& options) {
  const Value ones = target * softplus(-x);
  Value l = (options.pos_weight ? ones * options.pos_weight : ones) + (1 - target) * softplus(x);
  if (options.weight) l = l * options.weight;
  return over_elements(l, options.over);
}

Value mse(Value x, Value target, LossOver over) { return over_elements(square(x - target), over); }

Value l1(Value x, Value target, LossOver over) { return over_elements(abs(x - target), over); }

Value huber(Value x, Value target, double delta, LossOver over) {
  const Value distance = abs(x - target), inner = min(distance, scalar(distance, delta));
  return over_elements(inner * (distance - affine(inner, 0.5, 0)), over);
}

Value smooth_l1(Value x, Value target, double beta, LossOver over) {
  return affine(huber(x, target, beta, over), 1 / beta, 0);
}

Value kl_div(Value x, Value target, bool log_target, LossOver over) {
  if (log_target) return over_elements(exp(target) * (target - x), over);
  const Value none = equal(target, scalar(target, 0)), positive = where(none, scalar(target, 1), target);
  return over_elements(where(none, scalar(target, 0), target * (log(positive) - x)), over);
}

Value dice(Value x, Value target, const DiceOptions& options) {
  Value p = options.sigmoid ? sigmoid(x) : softmax(x, 1);
  Value t = is_class(target) ? cast(is_true(x, target, "dice"), x.dtype()) : target;
  if (!options.include_background) {
    std::vector<int64_t> starts(x.shape().size(), 0);
    starts.at(1) = 1;
    p = slice(p, starts, x.shape());
    t = slice(t, starts, x.shape());
  }
  std::vector<int64_t> axes;
  for (size_t a = 0; a < x.shape().size(); ++a)
    if (a > 1 || (a == 0 && options.batch)) axes.push_back(static_cast<int64_t>(a));
  const auto sum = [&](Value v) { return axes.empty() ? v : reduce_sum(v, {axes, true}); };
  const auto size = [&](Value v) { return options.squared ? square(v) : v; };
  const Value both = affine(sum(p * t), 2, options.smooth);
  return 1 - reduce_mean(both / affine(sum(size(p)) + sum(size(t)), 1, options.smooth));
}

Value focal(Value x, Value target, const FocalOptions& options) {
  const Value at = is_true(x, target, "focal");
  const Value lp = chosen(at, log_softmax(x, 1)), wrong = -expm1(lp);
  Value l = -(focus(wrong, options.gamma) * lp);
  if (options.weight) l = l * chosen(at, expand(by_class(options.weight, x.shape()), x.shape()));
  return over_elements(l, options.over);
}

Value focal_sigmoid(Value x, Value target, const FocalOptions& options) {
  const Value wrong = target * sigmoid(-x) + (1 - target) * sigmoid(x);
  Value l = focus(wrong, options.gamma) * bce_with_logits(x, target, {.over = LossOver::None});
  if (options.alpha) l = l * affine(target, 2 * *options.alpha - 1, 1 - *options.alpha);
  return over_elements(l, options.over);
}

}  // namespace gyrus
