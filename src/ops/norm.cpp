#include "ops/norm.h"

#include <algorithm>
#include <cmath>

#include "ops/building.h"
#include "ops/common.h"
#include "ops/fused.h"

namespace gyrus {
namespace {

int64_t voxels_of(const Shape& shape) {
  int64_t count = 1;
  for (size_t axis = 2; axis < shape.size(); ++axis) count *= shape[axis];
  return count;
}

void expect_rank(const Node& node, const Shape& shape, size_t least) {
  if (shape.size() < least)
    fail(ErrorCode::InvalidGraph, node.op, "input is ", to_string(shape), ", expected [N,C",
         least > 2 ? ",sp…]" : ",…]");
}

// gamma and beta are the inputs `first` and `first + 1`, or both absent.
void check_gamma_beta(const Node& node, const std::vector<TensorType>& inputs, size_t first, int64_t channels) {
  if (has_input(node, inputs, first) != has_input(node, inputs, first + 1))
    fail(ErrorCode::InvalidGraph, node.op, "has one of gamma and beta; give both or none");
  for (size_t i = first; i < std::min(inputs.size(), first + 2); ++i) {
    if (!has_input(node, inputs, i)) continue;
    expect_float(node, inputs[i], i == first ? "gamma" : "beta");
    if (inputs[i].shape != Shape{channels})
      fail(ErrorCode::InvalidGraph, node.op, i == first ? "gamma is " : "beta is ", to_string(inputs[i].shape),
           " but input has ", channels, " channels: expected [", channels, "]");
  }
}

std::vector<TensorType> infer_stats(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {});
  const Shape& x = inputs[0].shape;
  expect_rank(node, x, 3);
  expect_float(node, inputs[0], "input");
  if (voxels_of(x) == 0)
    fail(ErrorCode::InvalidGraph, node.op, "input is ", to_string(x), ", which has no voxels to take statistics of");
  return {{DType::F32, {x[0], x[1], 2}, Layout::Plain}};
}

void reference_stats(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  channel_stats(*inputs[0], outputs[0]);
}

double stats_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 4.0 * static_cast<double>(element_count(inputs[0].shape));
}

std::vector<TensorType> infer_apply(const Node& node, const std::vector<TensorType>& inputs) {
  check_node_with_body(node, inputs, 2, 4, {"groups", "eps"});
  const Shape& x = inputs[0].shape;
  expect_rank(node, x, 3);
  expect_float(node, inputs[0], "input");
  if (inputs[1].shape != Shape{x[0], x[1], 2} || inputs[1].dtype != DType::F32)
    fail(ErrorCode::InvalidGraph, node.op, "statistics are ", to_string(inputs[1].dtype), to_string(inputs[1].shape),
         " but input is ", to_string(x), ": expected f32[", x[0], ",", x[1], ",2]");
  norm_attrs(node, x[1]);
  check_gamma_beta(node, inputs, 2, x[1]);
  return infer_behind(node, {inputs[0].dtype, x, Layout::Plain}, inputs);
}

// Mean and variance of one group, whose channels all have as many voxels; `stats` points at its first channel.
void merge_group(const double* stats, int64_t channels, double& mean, double& variance) {
  mean = variance = 0;
  for (int64_t c = 0; c < channels; ++c) mean += stats[2 * c];
  mean /= static_cast<double>(channels);
  for (int64_t c = 0; c < channels; ++c) {
    const double shift = stats[2 * c] - mean;
    variance += stats[2 * c + 1] + shift * shift;
  }
  variance /= static_cast<double>(channels);
}

// y = (x - mean) / sqrt(var + eps) * gamma + beta; gamma and beta may be null.
void apply(const NormAttrs& attrs, const RefTensor& x, const RefTensor& stats, const RefTensor* gamma,
           const RefTensor* beta, RefTensor& y) {
  const int64_t batch = x.shape[0], channels = x.shape[1], voxels = voxels_of(x.shape);
  const int64_t group_size = channels / attrs.groups;
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c) {
      double mean = 0, variance = 0;
      merge_group(&stats.data[static_cast<size_t>(2 * (n * channels + c / group_size * group_size))], group_size, mean,
                  variance);
      const double scale = (gamma ? gamma->data[static_cast<size_t>(c)] : 1) / std::sqrt(variance + attrs.eps);
      const double shift = beta ? beta->data[static_cast<size_t>(c)] : 0;
      const int64_t first = (n * channels + c) * voxels;
      for (int64_t i = first; i < first + voxels; ++i)
        y.data[static_cast<size_t>(i)] = (x.data[static_cast<size_t>(i)] - mean) * scale + shift;
    }
}

void reference_apply(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  RefTensor raw{inputs[0]->shape, std::vector<double>(inputs[0]->data.size())};
  const bool affine = has_input(inputs, 3);
  apply(norm_attrs(node, inputs[0]->shape[1]), *inputs[0], *inputs[1], affine ? inputs[2] : nullptr,
        affine ? inputs[3] : nullptr, raw);
  outputs = reference_behind(node, std::move(raw), inputs);
}

double apply_flops(const Node& node, const std::vector<TensorType>&, const std::vector<TensorType>& outputs) {
  return static_cast<double>(element_count(outputs[0].shape)) * static_cast<double>(3 + node.body.size());
}

std::vector<TensorType> infer_norm(const Node& node, const std::vector<TensorType>& inputs) {
  const Shape& x = inputs[0].shape;
  expect_rank(node, x, 2);
  expect_float(node, inputs[0], "input");
  norm_attrs(node, x[1]);
  check_gamma_beta(node, inputs, 1, x[1]);
  return {{inputs[0].dtype, x, Layout::Plain}};
}

std::vector<TensorType> infer_group_norm(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 3, {"groups", "eps"});
  return infer_norm(node, inputs);
}

std::vector<TensorType> infer_instance_norm(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 3, {"eps"});
  return infer_norm(node, inputs);
}

void reference_norm(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor& x = *inputs[0];
  RefTensor stats{{x.shape[0], x.shape[1], 2}, std::vector<double>(static_cast<size_t>(2 * x.shape[0] * x.shape[1]))};
  channel_stats(x, stats);
  const bool affine = has_input(inputs, 2);
  apply(norm_attrs(node, x.shape[1]), x, stats, affine ? inputs[1] : nullptr, affine ? inputs[2] : nullptr, outputs[0]);
}

double norm_flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 7.0 * static_cast<double>(element_count(inputs[0].shape));
}

std::vector<ValueId> decompose_norm(Graph& graph, const Node& node) {
  ValueId x = node.inputs[0];
  if (element_count(graph.type(x).shape) == 0) return {x};
  const Shape shape = graph.type(x).shape;
  const NormAttrs attrs = norm_attrs(node, shape[1]);
  if (shape.size() == 2) x = graph.add("reshape", {x}, {{"shape", Shape{shape[0], shape[1], 1}}}, node.label);
  std::vector<ValueId> operands = {x, graph.add("norm_stats", {x}, {}, node.label)};
  operands.insert(operands.end(), node.inputs.begin() + 1, node.inputs.end());
  const ValueId y = graph.add("norm_apply", operands, {{"groups", attrs.groups}, {"eps", attrs.eps}}, node.label);
  return {shape.size() == 2 ? graph.add("reshape", {y}, {{"shape", shape}}, node.label) : y};
}

// Σ g and Σ g (x - mean) of each channel

std::vector<TensorType> infer_sums(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 3, {});
  const Shape& x = inputs[0].shape;
  expect_rank(node, x, 3);
  expect_float(node, inputs[0], "input");
  expect_float(node, inputs[1], "gradient");
  if (inputs[1].shape != x || inputs[2].shape != Shape{x[0], x[1], 2} || inputs[2].dtype != DType::F32)
    fail(ErrorCode::InvalidGraph, node.op, "gradient is ", to_string(inputs[1].shape), " and statistics ",
         to_string(inputs[2].shape), " but input is ", to_string(x));
  return {{DType::F32, {x[0], x[1], 2}, Layout::Plain}};
}

void reference_sums(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &x = *inputs[0], &g = *inputs[1], &stats = *inputs[2];
  const int64_t voxels = voxels_of(x.shape);
  for (size_t i = 0; i < x.data.size(); ++i) {
    const size_t c = i / static_cast<size_t>(voxels);
    outputs[0].data[2 * c] += g.data[i];
    outputs[0].data[2 * c + 1] += g.data[i] * (x.data[i] - stats.data[2 * c]);
  }
}

// Gradients. Both norms decompose into statistics and their application, of which these are.

// Part k of the last axis of [N,C,2], in this shape.
Value statistic(Value stats, int64_t k, const Shape& shape) { return reshape(slice_of(stats, 2, k, k + 1), shape); }

// With mean m and variance v of a group of channels, y = (x - m) / sqrt(v + eps) gamma + beta.
std::vector<Value> gradient_apply(const Backward& back) {
  const Value x = back.inputs[0], stats = back.inputs[1], g = back.gradients[0];
  const Shape shape = x.shape();
  const NormAttrs attrs = norm_attrs(back.node, shape[1]);
  const int64_t size = shape[1] / attrs.groups;
  const Shape grouped = {shape[0], attrs.groups, size};
  const Reduce over{{2}, true};
  const Value mean = statistic(stats, 0, grouped), variance = statistic(stats, 1, grouped);
  const auto of_group = [&](Value v) { return size == 1 ? v : reduce_mean(v, over); };
  const Value shift = size == 1 ? Value{} : mean - of_group(mean);
  const Value spread = size == 1 ? variance : of_group(variance + square(shift));
  const Value scale = rsqrt(gyrus::affine(spread, 1, attrs.eps));
  const Value sums = gyrus::apply("norm_sums", {x, g, stats});
  const Value first = statistic(sums, 0, grouped);  // Σ g
  Value second = statistic(sums, 1, grouped);       // Σ g (x - m)
  if (shift) second = second + shift * first;
  const bool affine = back.inputs.size() > 2 && back.inputs[2];
  const Value gamma = affine ? reshape(back.inputs[2], {1, attrs.groups, size}) : Value{};
  const auto weighted = [&](Value v) { return gamma ? v * gamma : v; };
  std::vector<Value> gradients(back.inputs.size());
  if (back.wanted[0]) {
    Shape line(shape.size(), 1);
    line[0] = shape[0];
    line[1] = shape[1];
    const Value factor = gamma ? scale * gamma : expand(scale, grouped);
    gradients[0] = g * reshape(factor, line);
  }
  if (back.wanted[1]) {
    const Value of_mean = -(scale * of_group(weighted(first)));
    const Value of_variance = gyrus::affine(scale * square(scale) * of_group(weighted(second)), -0.5, 0);
    Value means = expand(of_mean, grouped);
    if (shift) means = means + gyrus::affine(of_variance * shift, 2, 0);
    const Shape column = {shape[0], shape[1], 1};
    gradients[1] = concat({reshape(means, column), reshape(expand(of_variance, grouped), column)}, 2);
  }
  const auto channels = [&](Value v) {
    const Value one = reshape(v, {shape[0], shape[1]});
    return shape[0] == 1 ? reshape(one, {shape[1]}) : reduce_sum(one, {{0}, false});
  };
  if (affine && back.wanted[2]) gradients[2] = channels(scale * second);
  if (affine && back.wanted[3]) gradients[3] = channels(first);
  return gradients;
}

std::vector<Value> gradient_stats(const Backward& back) {
  const Value x = back.inputs[0];
  const Shape shape = x.shape();
  Shape line(shape.size(), 1);
  line[0] = shape[0];
  line[1] = shape[1];
  const double share = 1 / static_cast<double>(voxels_of(shape));
  const Value mean = statistic(back.outputs[0], 0, line);
  const Value of_mean = gyrus::affine(statistic(back.gradients[0], 0, line), share, 0);
  const Value of_variance = gyrus::affine(statistic(back.gradients[0], 1, line), 2 * share, 0);
  return {(x - mean) * of_variance + of_mean};
}

}  // namespace

NormAttrs norm_attrs(const Node& node, int64_t channels) {
  NormAttrs attrs;
  attrs.groups = node.op == kInstanceNorm.name ? channels : node.attrs.integer("groups");
  attrs.eps = node.attrs.number("eps", attrs.eps);
  if (attrs.groups < 1 || channels % attrs.groups != 0)
    fail(ErrorCode::InvalidGraph, node.op, channels, " channels do not divide into ", attrs.groups, " groups");
  if (!(attrs.eps >= 0) || !std::isfinite(attrs.eps))
    fail(ErrorCode::InvalidGraph, node.op, "eps is ", attrs.eps, ", expected a finite number of at least 0");
  return attrs;
}

void channel_stats(const RefTensor& x, RefTensor& stats) {
  const int64_t voxels = voxels_of(x.shape);
  const int64_t channels = x.shape[0] * x.shape[1];
  for (int64_t c = 0; c < channels; ++c) {
    const double* first = x.data.data() + c * voxels;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < voxels; ++i) mean += first[i];
    mean /= static_cast<double>(voxels);
    for (int64_t i = 0; i < voxels; ++i) variance += (first[i] - mean) * (first[i] - mean);
    stats.data[static_cast<size_t>(2 * c)] = mean;
    stats.data[static_cast<size_t>(2 * c + 1)] = variance / static_cast<double>(voxels);
  }
}

const OpDef kNormStats = {
    .name = "norm_stats",
    .infer = infer_stats,
    .reference = reference_stats,
    .layout = LayoutRule::ReadsPacked,
    .gives_statistics = true,
    .gradient = gradient_stats,
    .flops = stats_flops,
};

const OpDef kNormApply = {
    .name = "norm_apply",
    .infer = infer_apply,
    .reference = reference_apply,
    .takes_body = [](const Node&) { return true; },
    .own_inputs = 4,
    .layout = LayoutRule::Packed,
    .in_place = InPlace::First,
    .gradient = gradient_apply,
    .recomputed = true,
    .flops = apply_flops,
};

const OpDef kNormSums = {
    .name = "norm_sums",
    .infer = infer_sums,
    .reference = reference_sums,
    .layout = LayoutRule::ReadsMaps,
    .flops = stats_flops,
};

const OpDef kGroupNorm = {
    .name = "group_norm",
    .infer = infer_group_norm,
    .reference = reference_norm,
    .decompose = decompose_norm,
    .flops = norm_flops,
};

const OpDef kInstanceNorm = {
    .name = "instance_norm",
    .infer = infer_instance_norm,
    .reference = reference_norm,
    .decompose = decompose_norm,
    .flops = norm_flops,
};

}  // namespace gyrus
