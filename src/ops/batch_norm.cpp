#include "ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/common.h"

namespace gyrus {
namespace {

constexpr const char* kOperands[] = {"input", "mean", "var", "gamma", "beta"};
constexpr double kDefaultEps = 1e-5;

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 5, {"eps"});
  const Shape& x = inputs[0].shape;
  if (x.size() < 2) fail(ErrorCode::InvalidGraph, node.op, "input is ", to_string(x), ", expected [N,C,…]");
  if (inputs.size() == 4) fail(ErrorCode::InvalidGraph, node.op, "has gamma but no beta; give both or none");
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_float(node, inputs[i], kOperands[i]);
    if (i > 0 && inputs[i].shape != Shape{x[1]})
      fail(ErrorCode::InvalidGraph, node.op, kOperands[i], " is ", to_string(inputs[i].shape), " but input has ", x[1],
           " channels: expected [", x[1], "]");
  }
  const double eps = node.attrs.number("eps", kDefaultEps);
  if (!(eps >= 0) || !std::isfinite(eps))
    fail(ErrorCode::InvalidGraph, node.op, "eps is ", eps, ", expected at least 0");
  return {{inputs[0].dtype, x, Layout::Plain}};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor& x = *inputs[0];
  const int64_t batch = x.shape[0], channels = x.shape[1];
  const int64_t voxels = element_count(Shape(x.shape.begin() + 2, x.shape.end()));
  const double eps = node.attrs.number("eps", kDefaultEps);
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c) {
      const size_t at = static_cast<size_t>(c);
      const double scale = (inputs.size() == 5 ? inputs[3]->data[at] : 1) / std::sqrt(inputs[2]->data[at] + eps);
      const double beta = inputs.size() == 5 ? inputs[4]->data[at] : 0;
      for (int64_t i = (n * channels + c) * voxels; i < (n * channels + c + 1) * voxels; ++i)
        outputs[0].data[static_cast<size_t>(i)] = (x.data[static_cast<size_t>(i)] - inputs[1]->data[at]) * scale + beta;
    }
}

double flops(const Node&, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  return 2.0 * static_cast<double>(element_count(inputs[0].shape));
}

// [1,C,1,…]: broadcasts over batch and voxels.
Shape channel_shape(const Shape& x) {
  Shape shape(x.size(), 1);
  shape[1] = x[1];
  return shape;
}

// x * scale + shift with both computed here, in doubles.
ValueId fold(Graph& graph, const Node& node, const Shape& shape, double eps) {
  Tensor scale(DType::F32, shape), shift(DType::F32, shape);
  for (int64_t c = 0; c < shape[1]; ++c) {
    const auto operand = [&](size_t i) { return get(graph.constant(node.inputs[i]), c); };
    const bool affine = node.inputs.size() == 5;
    const double factor = (affine ? operand(3) : 1) / std::sqrt(operand(2) + eps);
    set(scale, c, factor);
    set(shift, c, (affine ? operand(4) : 0) - operand(1) * factor);
  }
  const ValueId scaled = graph.add("mul", {node.inputs[0], graph.add_constant("", std::move(scale))}, {}, node.label);
  return graph.add("add", {scaled, graph.add_constant("", std::move(shift))}, {}, node.label);
}

std::vector<ValueId> decompose(Graph& graph, const Node& node) {
  const Shape shape = channel_shape(graph.type(node.inputs[0]).shape);
  const double eps = node.attrs.number("eps", kDefaultEps);
  if (std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId id) { return graph.is_constant(id); }))
    return {fold(graph, node, shape, eps)};

  const auto operand = [&](size_t i) { return graph.add("reshape", {node.inputs[i]}, {{"shape", shape}}, node.label); };
  const ValueId eps_value = graph.add_constant("", Tensor::from_floats({}, {static_cast<float>(eps)}));
  const ValueId variance = graph.add("add", {operand(2), eps_value}, {}, node.label);
  ValueId scale = graph.add("rsqrt", {variance}, {}, node.label);
  const bool affine = node.inputs.size() == 5;
  if (affine) scale = graph.add("mul", {scale, operand(3)}, {}, node.label);
  const ValueId centred = graph.add("sub", {node.inputs[0], operand(1)}, {}, node.label);
  const ValueId scaled = graph.add("mul", {centred, scale}, {}, node.label);
  return {affine ? graph.add("add", {scaled, operand(4)}, {}, node.label) : scaled};
}

}  // namespace

const OpDef kBatchNorm = {
    .name = "batch_norm",
    .infer = infer,
    .reference = reference,
    .decompose = decompose,
    .flops = flops,
};

}  // namespace gyrus
