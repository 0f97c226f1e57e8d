#include "core/error.h"
#include "gyrus/nn.h"

namespace gyrus {

BatchNormResult batch_norm_training(Value x, Value running_mean, Value running_variance, Value gamma, Value beta,
                                    double momentum, double eps) {
  const Shape shape = x.shape();
  if (shape.size() < 2)
    fail(ErrorCode::InvalidGraph, "batch_norm_training", "input is ", to_string(shape), ", expected [N,C,…]");
  Shape line(shape.size(), 1);
  line[1] = shape[1];
  Reduce over{{}, true};
  for (size_t a = 0; a < shape.size(); ++a)
    if (a != 1) over.axes.push_back(static_cast<int64_t>(a));
  const Value mean = reduce_mean(x, over), centred = x - mean;
  const Value variance = reduce_mean(square(centred), over);
  Value y = centred * rsqrt(affine(variance, 1, eps));
  if (gamma) y = y * reshape(gamma, line);
  if (beta) y = y + reshape(beta, line);
  BatchNormResult result{y, reshape(mean, {shape[1]}), reshape(variance, {shape[1]}), {}, {}};
  const double count = static_cast<double>(element_count(shape)) / static_cast<double>(shape[1]);
  const auto running = [&](Value before, Value batch, double factor) {
    return before ? affine(before, 1 - momentum, 0) + affine(batch, momentum * factor, 0) : Value{};
  };
  result.running_mean = running(running_mean, result.mean, 1);
  result.running_variance = running(running_variance, result.variance, count > 1 ? count / (count - 1) : 1);
  return result;
}

}  // namespace gyrus
