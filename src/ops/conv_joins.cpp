#include "ops/conv_joins.h"

#include <algorithm>

#include "ops/common.h"
#include "ops/conv.h"

namespace gyrus::conv_joins {
namespace {

bool has_constant_weights(const Graph& graph, const Node& conv) {
  return graph.is_constant(conv.inputs[1]) &&
         (!has_input(conv, 2, conv.inputs.size()) || graph.is_constant(conv.inputs[2]));
}

bool is_pointwise(const Graph& graph, const Node& conv) {
  const Shape& weight = graph.type(conv.inputs[1]).shape;
  const ConvAttrs attrs = conv_attrs(conv, weight.size() - 2);
  const auto all = [](const auto& list, size_t from, int64_t value) {
    return std::all_of(list.begin() + static_cast<std::ptrdiff_t>(from), list.end(),
                       [value](int64_t v) { return v == value; });
  };
  return all(weight, 2, 1) && all(attrs.stride, 0, 1) && all(attrs.pad_lo, 0, 0) && all(attrs.pad_hi, 0, 0);
}

// Nothing stands between the sums and the result, and no statistics are taken of them.
bool is_bare(const Node& conv) { return conv.body.empty() && !flag(conv, "stats"); }

}  // namespace

bool packs(const Graph&, const Node& conv) { return conv.attrs.integer("groups", 1) == 1; }

std::optional<Node> with_statistics(const Graph& graph, const Node& conv) {
  if (!conv.body.empty() || !packs(graph, conv)) return {};
  Node joined = conv;
  joined.attrs.set("stats", int64_t{1});
  return joined;
}

std::optional<Node> with_affine(Graph& graph, const Node& conv, const std::vector<double>& scale,
                                const std::vector<double>& shift, const std::string& name) {
  if (!is_bare(conv) || !has_constant_weights(graph, conv)) return {};
  const Tensor& weight = graph.constant(conv.inputs[1]);
  const int64_t outputs = weight.shape[0];
  const int64_t inner = weight.size() / outputs;
  Tensor folded(DType::F32, weight.shape), bias(DType::F32, {outputs});
  for (int64_t i = 0; i < weight.size(); ++i) set(folded, i, get(weight, i) * scale[static_cast<size_t>(i / inner)]);
  for (int64_t o = 0; o < outputs; ++o) {
    const bool has_bias = has_input(conv, 2, conv.inputs.size());
    const double old = has_bias ? get(graph.constant(conv.inputs[2]), o) : 0.0;
    set(bias, o, old * scale[static_cast<size_t>(o)] + shift[static_cast<size_t>(o)]);
  }
  Node joined = conv;
  joined.inputs = {conv.inputs[0], graph.add_constant(name, std::move(folded)),
                   graph.add_constant(name.empty() ? "" : name + "_bias", std::move(bias))};
  return joined;
}

std::optional<Node> with_argmax(const Graph& graph, const Node& conv, DType dtype) {
  if (!is_bare(conv) || !packs(graph, conv) || !is_pointwise(graph, conv)) return {};
  if (dtype != DType::U8 && dtype != DType::U32) return {};
  Node joined = conv;
  joined.op = kConvArgmax.name;
  joined.attrs.erase("stats");
  joined.attrs.set("dtype", std::string(to_string(dtype)));
  return joined;
}

}  // namespace gyrus::conv_joins
