#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/attention_parts.h"
#include "ops/common.h"

namespace gyrus {
namespace {

void check_operand(const Node& node, const TensorType& type, const char* what, const Shape& scores) {
  if (broadcast(node, type.shape, scores) != scores)
    fail(ErrorCode::InvalidGraph, node.op, "the ", what, " is ", to_string(type.shape),
         ", which does not broadcast to ", to_string(scores));
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 3, 5, {"causal", "window", "scale", "softcap", "hidden", "halves"});
  for (size_t i = 0; i < inputs.size(); ++i)
    if (i != 3 && has_input(node, inputs, i) && inputs[i].dtype != DType::F32)
      fail(ErrorCode::Unsupported, node.op, "input ", i, " is ", to_string(inputs[i].dtype), ", expected f32");
  const AttentionAttrs a = attention_attrs(node, inputs[0].shape, inputs[1].shape, inputs[2].shape);
  const Shape scores = {a.batch, a.heads, a.queries, a.keys};
  if (has_input(node, inputs, 3)) {
    if (inputs[3].dtype != DType::Bool && inputs[3].dtype != DType::U8)
      fail(ErrorCode::Unsupported, node.op, "the mask is ", to_string(inputs[3].dtype), ", expected bool");
    check_operand(node, inputs[3], "mask", scores);
  }
  if (has_input(node, inputs, 4)) check_operand(node, inputs[4], "bias", scores);
  return {{DType::F32, {a.batch, a.heads, a.queries, a.value_depth}, Layout::Plain}};
}

// An operand that broadcasts to the scores, or none.
class Spread {
 public:
  Spread(const std::vector<const RefTensor*>& inputs, size_t i, const AttentionAttrs& a)
      : tensor_(has_input(inputs, i) ? inputs[i] : nullptr) {
    if (tensor_) strides_ = broadcast_strides(tensor_->shape, {a.batch, a.heads, a.queries, a.keys});
  }
  double at(int64_t b, int64_t h, int64_t i, int64_t j, double absent) const {
    if (!tensor_) return absent;
    return tensor_->data[static_cast<size_t>(b * strides_[0] + h * strides_[1] + i * strides_[2] + j * strides_[3])];
  }

 private:
  const RefTensor* tensor_;
  std::vector<int64_t> strides_;
};

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const RefTensor &q = *inputs[0], &k = *inputs[1], &v = *inputs[2];
  const AttentionAttrs a = attention_attrs(node, q.shape, k.shape, v.shape);
  const Spread mask(inputs, 3, a), bias(inputs, 4, a);
  std::vector<double> parts(static_cast<size_t>(a.keys));
  for (int64_t row = 0; row < a.batch * a.heads * a.queries; ++row) {
    const int64_t i = row % a.queries, h = row / a.queries % a.heads, b = row / a.queries / a.heads;
    const int64_t kv = b * a.kv_heads + h * a.kv_heads / a.heads;
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a.keys; ++j) {
      double s = 0;
      for (int64_t d = 0; d < a.depth; ++d)
        s += q.data[static_cast<size_t>(row * a.depth + d)] *
             k.data[static_cast<size_t>((kv * a.keys + j) * a.depth + d)];
      s *= a.scale;
      if (a.softcap > 0) s = a.softcap * std::tanh(s / a.softcap);
      s += bias.at(b, h, i, j, 0);
      if (mask.at(b, h, i, j, 1) == 0) s = a.hidden;
      parts[static_cast<size_t>(j)] = a.sees(i, j) ? s : -INFINITY;
      largest = std::max(largest, parts[static_cast<size_t>(j)]);
    }
    if (largest == -INFINITY) continue;
    for (double& part : parts) sum += part = std::exp(part - largest);
    for (int64_t j = 0; j < a.keys; ++j)
      for (int64_t d = 0; d < a.value_depth; ++d)
        outputs[0].data[static_cast<size_t>(row * a.value_depth + d)] +=
            parts[static_cast<size_t>(j)] / sum * v.data[static_cast<size_t>((kv * a.keys + j) * a.value_depth + d)];
  }
}

// By parts, with the scores in memory: for targets and depths that the kernel does not suit.
std::vector<ValueId> decompose(Graph& graph, const Node& node) {
  const auto add = [&](const char* op, const std::vector<ValueId>& inputs, Attrs attrs = {}) {
    return graph.add(op, inputs, std::move(attrs), node.label);
  };
  const auto product = [&](const std::vector<ValueId>& inputs, Attrs attrs) {
    if (flag(node, "halves")) attrs.set("halves", int64_t{1});
    return add("matmul", inputs, std::move(attrs));
  };
  const auto number = [&](double value) {
    Tensor t(DType::F32, {});
    set(t, 0, value);
    return graph.add_constant("", std::move(t));
  };
  const AttentionAttrs a = attention_attrs(node, graph.type(node.inputs[0]).shape, graph.type(node.inputs[1]).shape,
                                           graph.type(node.inputs[2]).shape);
  const auto operand = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : kNoValue; };
  // Heads of keys or values repeated for the queries that read them.
  const auto repeated = [&](ValueId id, int64_t depth) {
    if (a.heads == a.kv_heads) return id;
    const ValueId apart = add("reshape", {id}, {{"shape", Shape{a.batch, a.kv_heads, 1, a.keys, depth}}});
    const Shape shape = {a.batch, a.kv_heads, a.heads / a.kv_heads, a.keys, depth};
    return add("reshape", {add("expand", {apart}, {{"shape", shape}})},
               {{"shape", Shape{a.batch, a.heads, a.keys, depth}}});
  };
  ValueId scores = product({node.inputs[0], repeated(node.inputs[1], a.depth)}, {{"transpose_b", int64_t{1}}});
  scores = add("affine", {scores}, {{"scale", a.softcap > 0 ? a.scale / a.softcap : a.scale}});
  if (a.softcap > 0) scores = add("affine", {add("tanh", {scores})}, {{"scale", a.softcap}});
  if (operand(4) != kNoValue) scores = add("add", {scores, operand(4)});
  ValueId seen = operand(3);
  if (seen != kNoValue && std::isfinite(a.hidden)) {
    scores = add("where", {seen, scores, number(a.hidden)});
    seen = kNoValue;
  }
  if (a.causal || a.window > 0) {
    Tensor near(DType::U8, {a.queries, a.keys});
    for (int64_t i = 0; i < a.queries; ++i)
      for (int64_t j = 0; j < a.keys; ++j) near.as<uint8_t>()[i * a.keys + j] = a.sees(i, j);
    const ValueId places = graph.add_constant("", std::move(near));
    if (seen == kNoValue) {
      seen = places;
    } else {
      const ValueId bytes = add("cast", {seen}, {{"to", "u8"}});
      seen = add("logical_and", {bytes, places});
    }
  }
  if (seen != kNoValue) scores = add("where", {seen, scores, number(-3e38)});
  ValueId parts = add("softmax", {scores}, {{"axis", int64_t{-1}}});
  if (seen != kNoValue) parts = add("where", {seen, parts, number(0)});
  return {product({parts, repeated(node.inputs[2], a.value_depth)}, {})};
}

double flops(const Node& node, const std::vector<TensorType>& inputs, const std::vector<TensorType>&) {
  const AttentionAttrs a = attention_attrs(node, inputs[0].shape, inputs[1].shape, inputs[2].shape);
  return 2.0 * static_cast<double>(a.batch * a.heads * a.queries) *
         static_cast<double>(a.keys * (a.depth + a.value_depth));
}

}  // namespace

bool AttentionAttrs::sees(int64_t query, int64_t key) const {
  const int64_t back = query + keys - queries - key;  // how far before the query the key stands
  return (!causal || back >= 0) && (window == 0 || std::abs(back) < window);
}

AttentionAttrs attention_attrs(const Node& node, const Shape& q, const Shape& k, const Shape& v) {
  const bool fits = q.size() == 4 && k.size() == 4 && v.size() == 4 && k[0] == q[0] && v[0] == q[0] && v[1] == k[1] &&
                    v[2] == k[2] && k[3] == q[3] && k[1] > 0 && q[1] % k[1] == 0;
  if (!fits)
    fail(ErrorCode::InvalidGraph, node.op, "q is ", to_string(q), ", k ", to_string(k), ", v ", to_string(v),
         ": expected [B,H,Sq,D], [B,Hk,Sk,D], [B,Hk,Sk,Dv] with H a multiple of Hk");
  AttentionAttrs a{q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
  a.causal = flag(node, "causal");
  a.window = node.attrs.integer("window", 0);
  a.scale = node.attrs.number("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, a.depth))));
  a.softcap = node.attrs.number("softcap", 0);
  a.hidden = node.attrs.number("hidden", -INFINITY);
  if (a.window < 0 || a.softcap < 0)
    fail(ErrorCode::InvalidGraph, node.op, "window is ", a.window, " and softcap ", a.softcap, ": expected 0 or more");
  return a;
}

const OpDef kAttention = {
    .name = "attention",
    .infer = infer,
    .reference = reference,
    .decompose = decompose,
    .from_parts = attention_from_parts,
    .has_kernel = true,
    .multiplies = true,
    .flops = flops,
};

}  // namespace gyrus
