#include <cmath>

#include "core/error.h"
#include "core/tensor.h"
#include "gyrus/nn.h"
#include "gyrus/random.h"
#include "ops/random.h"

namespace gyrus {
namespace {

constexpr int64_t kDropoutStream = 1 << 16;  // of the first layer; others count from 0

// Uniform numbers whose variance keeps that of what they are multiplied with, behind a ReLU.
Tensor starting(const Shape& shape, int32_t seed, uint32_t stream) {
  Tensor weight(DType::F32, shape);
  const int64_t summed = element_count(shape) / shape[0];  // by each output
  const double bound = std::sqrt(6 / static_cast<double>(summed));
  for (int64_t i = 0; i < weight.size(); ++i) {
    const uint32_t word = threefry2x32({static_cast<uint32_t>(i), stream}, {static_cast<uint32_t>(seed), 0})[0];
    set(weight, i, bound * (2 * static_cast<double>(word >> 8) / 0x1p24 - 1));
  }
  return weight;
}

Tensor filled(int64_t count, double value) {
  Tensor t(DType::F32, {count});
  for (int64_t i = 0; i < count; ++i) set(t, i, value);
  return t;
}

}  // namespace

Value meshnet(Value x, const MeshNetOptions& options) {
  const size_t rank = x.shape().size();
  if (rank < 3 || rank > 5)
    fail(ErrorCode::InvalidGraph, "meshnet", "x is ", to_string(x.shape()), ", expected [N,C,…] of one to three axes");
  if (options.classes < 1 || options.channels < 1)
    fail(ErrorCode::InvalidInput, "meshnet", "has ", options.classes, " classes and ", options.channels,
         " channels, expected 1 or more of each");
  Graph& graph = x.graph();
  const auto kernel = [&](int64_t out, int64_t in, int64_t taps) {
    Shape shape(rank, taps);
    shape[0] = out;
    shape[1] = in;
    return shape;
  };
  const std::string label = graph.label();
  uint32_t layer = 0;
  for (const int64_t dilation : options.dilations) {
    const std::string name = "layer" + std::to_string(layer);
    graph.set_label(name);
    const int64_t in = x.shape()[1], c = options.channels;
    const Value weight = graph.parameter(name + ".weight", starting(kernel(c, in, 3), options.seed, layer));
    x = conv(
        x, weight,
        {.dilation = std::vector<int64_t>(rank - 2, dilation), .pads = std::vector<int64_t>(2 * (rank - 2), dilation)});
    const Value gamma = graph.parameter(name + ".gamma", filled(c, 1)),
                beta = graph.parameter(name + ".beta", filled(c, 0));
    x = relu(instance_norm(x, gamma, beta));
    if (options.dropout > 0) x = dropout(x, random_key(graph), kDropoutStream + layer, options.dropout);
    ++layer;
  }
  graph.set_label("output");
  const Shape last = kernel(options.classes, x.shape()[1], 1);
  const Value weight = graph.parameter("output.weight", starting(last, options.seed, layer));
  x = conv(x, weight, {.bias = graph.parameter("output.bias", filled(options.classes, 0))});
  graph.set_label(label);
  return x;
}

}  // namespace gyrus
