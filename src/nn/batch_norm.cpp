#include "core/error.h"
#include "core/tensor.h"
#include "gyrus/nn.h"

namespace gyrus {

BatchNormResult batch_norm_training(Value x, Value running_mean, Value running_variance, Value gamma, Value beta,
                                    double momentum, double eps) {
  const Shape shape = x.shape();
  if (shape.size() < 2)
    fail(ErrorCode::InvalidGraph, "batch_norm_training", "input is ", to_string(shape), ", expected [N,C,…]");
  const int64_t images = shape[0], channels = shape[1];
  // One axis at least behind the channels, as statistics want it.
  const Value map = shape.size() == 2 ? reshape(x, {images, channels, 1}) : x;
  Value stats = apply("norm_stats", {map});
  if (images > 1) {
    // Of the whole batch: the mean of means; the mean of variances, and of squares of what means are off.
    const auto part = [&](int64_t k) { return slice(stats, {0, 0, k}, {images, channels, k + 1}); };
    const Reduce over{{0}, true};
    const Value mean = reduce_mean(part(0), over);
    const Value variance = reduce_mean(part(1) + square(part(0) - mean), over);
    stats = expand(concat({mean, variance}, 2), {images, channels, 2});
  }
  const auto line = [&](Value given, double otherwise) {
    if (given || (!gamma && !beta)) return given;
    Tensor all(DType::F32, {channels});
    for (int64_t c = 0; c < channels; ++c) set(all, c, otherwise);
    return x.graph().constant(std::move(all));
  };
  const Value y =
      apply("norm_apply", {map, stats, line(gamma, 1), line(beta, 0)}, {{"groups", channels}, {"eps", eps}});
  const auto of_batch = [&](int64_t k) { return reshape(slice(stats, {0, 0, k}, {1, channels, k + 1}), {channels}); };
  BatchNormResult result{shape.size() == 2 ? reshape(y, shape) : y, of_batch(0), of_batch(1), {}, {}};
  const double count = static_cast<double>(element_count(shape)) / static_cast<double>(channels);
  const auto running = [&](Value before, Value batch, double factor) {
    return before ? affine(before, 1 - momentum, 0) + affine(batch, momentum * factor, 0) : Value{};
  };
  result.running_mean = running(running_mean, result.mean, 1);
  result.running_variance = running(running_variance, result.variance, count > 1 ? count / (count - 1) : 1);
  return result;
}

}  // namespace gyrus
