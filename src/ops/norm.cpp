#include "ops/norm.h"

#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/fused.h"
#include "ops/building.h"

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

// As that of a layer norm (ops/rows.cpp), over the channels of a group and all voxels.
std::vector<Value> gradient_norm(const Backward& back) {
  const Value x = back.inputs[0], g = back.gradients[0];
  const Shape shape = x.shape();
  const NormAttrs attrs = norm_attrs(back.node, shape[1]);
  const Shape grouped = {shape[0], attrs.groups, shape[1] / attrs.groups, voxels_of(shape)};
  const Reduce over{{2, 3}, true};
  const Value centre = reshape(x, grouped) - reduce_mean(reshape(x, grouped), over);
  const Value scale = rsqrt(gyrus::affine(reduce_mean(square(centre), over), 1, attrs.eps));
  const Value h = centre * scale, upstream = reshape(g, grouped);
  const bool affine = back.inputs.size() > 2;
  std::vector<Value> gradients(back.inputs.size());
  if (back.wanted[0]) {
    const Value k = affine ? upstream * reshape(back.inputs[1], {1, grouped[1], grouped[2], 1}) : upstream;
    gradients[0] = reshape((k - reduce_mean(k, over) - h * reduce_mean(k * h, over)) * scale, shape);
  }
  const auto channels = [&](Value summed) { return reshape(reduce_sum(summed, {{0, 3}, false}), {shape[1]}); };
  if (affine && back.wanted[1]) gradients[1] = channels(upstream * h);
  if (affine && back.wanted[2]) gradients[2] = channels(upstream);
  return gradients;
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
    .flops = apply_flops,
};

const OpDef kGroupNorm = {
    .name = "group_norm",
    .infer = infer_group_norm,
    .reference = reference_norm,
    .gradient = gradient_norm,
    .decompose = decompose_norm,
    .flops = norm_flops,
};

const OpDef kInstanceNorm = {
    .name = "instance_norm",
    .infer = infer_instance_norm,
    .reference = reference_norm,
    .gradient = gradient_norm,
    .decompose = decompose_norm,
    .flops = norm_flops,
};

}  // namespace gyrus
