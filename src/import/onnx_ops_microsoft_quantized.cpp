// Ops of com.microsoft over quantised tensors, and those that onnxruntime makes by joining others.

#include "import/onnx_quantized.h"
#include "import/onnx_window.h"

namespace gyrus::onnx {
namespace {

// Operand i with its scale and zero point behind it.
Val numbers_of(Ctx& c, size_t i) { return dequantized(c.in(i), c.in(i + 1), c.opt(i + 2)); }

// Without a zero point the type is that of operand `like`.
Val given_back(Ctx& c, Val y, size_t scale, size_t like) {
  return quantized(y, c.in(scale), c.has(scale + 1) ? c.in(scale + 1) : scalar(c.in(like), 0));
}

template <bool kProduct>
Vals qlinear_pair(Ctx& c) {
  const Val a = numbers_of(c, 0), b = numbers_of(c, 3);
  return {given_back(c, kProduct ? a * b : a + b, 6, 0)};
}

Vals qlinear_sigmoid(Ctx& c) { return {given_back(c, op("sigmoid", {numbers_of(c, 0)}), 3, 0)}; }

Vals qlinear_leaky_relu(Ctx& c) {
  return {given_back(c, op("leaky_relu", {numbers_of(c, 0)}, {{"alpha", c.number("alpha", 0.01)}}), 3, 0)};
}

// The channels second, where they are last, and back.
Val channels_second(Ctx& c, Val x, bool back) {
  if (c.integer("channels_last", 0) == 0) return x;
  Ints perm = range(static_cast<int64_t>(x.rank()));
  if (perm.size() < 3) invalid("has no channels behind spatial axes");
  if (back) {
    perm.erase(perm.begin() + 1);
    perm.push_back(1);
  } else {
    perm.insert(perm.begin() + 1, perm.back());
    perm.pop_back();
  }
  return transpose(x, perm);
}

Vals qlinear_average_pool(Ctx& c) {
  const Val y = average_pooled(c, channels_second(c, numbers_of(c, 0), false));
  return {given_back(c, channels_second(c, y, true), 3, 0)};
}

Vals qlinear_global_average_pool(Ctx& c) {
  const Val x = channels_second(c, numbers_of(c, 0), false);
  Ints axes = range(static_cast<int64_t>(x.rank()));
  axes.erase(axes.begin(), axes.begin() + 2);
  return {given_back(c, channels_second(c, reduce("reduce_mean", x, axes, true), true), 3, 0)};
}

Vals qlinear_concat(Ctx& c) {
  Vals parts;
  for (size_t i = 2; i + 2 < c.inputs(); i += 3) parts.push_back(numbers_of(c, i));
  if (parts.empty()) invalid("joins nothing");
  return {quantized(concat(parts, axis_of(c.integer("axis"), parts[0].rank())), c.in(0), c.in(1))};
}

Vals qlinear_softmax(Ctx& c) {
  const Val x = numbers_of(c, 0);
  const int64_t axis = static_cast<int64_t>(axis_of(c.integer("axis", -1), x.rank()));
  if (c.integer("opset") >= 13) return {given_back(c, softmax(x, axis), 3, 0)};
  const Shape shape = x.shape();
  const Shape front(shape.begin(), shape.begin() + axis);
  return {given_back(c, reshape(softmax(reshape(x, {element_count(front), -1}), 1), shape), 3, 0)};
}

Vals qlinear_where(Ctx& c) { return {given_back(c, where(c.in(0), numbers_of(c, 1), numbers_of(c, 4)), 7, 1)}; }

// a · b of bytes, as numbers.
Val scaled_product(Ctx& c, const Bytewise& a, size_t b, Val b_scale, Val b_zero, Val bias) {
  const Val right = centred(c.in(b), b_zero, {b_zero ? b_zero.size() : 1});
  const Val sum = integer_matmul(centred(a.q, a.zero, {a.zero ? a.zero.size() : 1, 1}), right);
  const Val y = cast(sum, Elem::F32) * (reshape(a.scale, {}) * b_scale);
  return bias ? y + bias : y;
}

Vals dynamic_quantize_matmul(Ctx& c) {
  return {scaled_product(c, quantized_by_range(c.in(0)), 1, c.in(2), c.opt(3), c.opt(4))};
}

Vals matmul_integer_to_float(Ctx& c) {
  if (c.in(2).size() != 1) unsupported("a scale for each row");
  return {scaled_product(c, {c.in(0), c.in(2), c.opt(4)}, 1, c.in(3), c.opt(5), c.opt(6))};
}

Vals quantized_gemm(Ctx& c) {
  const auto turned = [](Val x, bool turns) { return turns ? swap_axes(x, 0, 1) : x; };
  const Val b_zero = c.in(5);
  const Val a = turned(centred(c.in(0), c.in(2), {}), c.integer("transA", 0) != 0);
  const bool tb = c.integer("transB", 0) != 0;
  const Val b = turned(centred(c.in(3), b_zero, tb ? Shape{b_zero.size(), 1} : Shape{b_zero.size()}), tb);
  Val sum = integer_matmul(a, b);
  if (c.has(6)) sum = sum + c.in(6);
  const Val y = cast(sum, Elem::F32) * (reshape(c.in(1), {}) * c.in(4)) * c.number("alpha", 1);
  return {c.has(7) ? given_back(c, y, 7, 0) : y};
}

// What onnxruntime puts behind a convolution or product.
Val activated(Ctx& c, Val y) {
  const std::string name = c.text("activation", "");
  const std::vector<double> numbers = c.numbers("activation_params");
  const auto number = [&](size_t i, const char* attribute, double fallback) {
    return i < numbers.size() ? numbers[i] : c.number(attribute, fallback);
  };
  if (name.empty()) return y;
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh")
    return op(name == "Relu" ? "relu" : name == "Sigmoid" ? "sigmoid" : "tanh", {y});
  if (name == "LeakyRelu") return op("leaky_relu", {y}, {{"alpha", number(0, "activation_alpha", 0.01)}});
  if (name == "HardSigmoid")
    return op("hard_sigmoid", {y},
              {{"alpha", number(0, "activation_alpha", 0.2)}, {"beta", number(1, "activation_beta", 0.5)}});
  if (name == "Clip" && numbers.size() == 2)
    return op("min", {op("max", {y, scalar(y, numbers[0])}), scalar(y, numbers[1])});
  unsupported(cat("activation ", in_quotes(name)));
}

Vals fused_conv(Ctx& c) {
  const Val y = standard_ops().at("Conv")(c)[0];
  return {activated(c, c.has(3) ? y + c.in(3) : y)};
}

Vals fused_gemm(Ctx& c) { return {activated(c, standard_ops().at("Gemm")(c)[0])}; }

Vals bias_split_gelu(Ctx& c) {
  const Val x = c.in(0) + c.in(1);
  const int64_t half = x.extent(-1) / 2;
  const size_t last = x.rank() - 1;
  return {slice(x, last, 0, half) * op("gelu", {slice(x, last, half, 2 * half)})};
}

}  // namespace

void add_microsoft_quantized_ops(OpTable& t) {
  t["QLinearAdd"] = qlinear_pair<false>;
  t["QLinearMul"] = qlinear_pair<true>;
  t["QLinearSigmoid"] = qlinear_sigmoid;
  t["QLinearLeakyRelu"] = qlinear_leaky_relu;
  t["QLinearAveragePool"] = qlinear_average_pool;
  t["QLinearGlobalAveragePool"] = qlinear_global_average_pool;
  t["QLinearConcat"] = qlinear_concat;
  t["QLinearSoftmax"] = qlinear_softmax;
  t["QLinearWhere"] = qlinear_where;
  t["DynamicQuantizeMatMul"] = dynamic_quantize_matmul;
  t["MatMulIntegerToFloat"] = matmul_integer_to_float;
  t["QGemm"] = quantized_gemm;
  t["FusedConv"] = fused_conv;
  t["FusedGemm"] = fused_gemm;
  t["BiasSplitGelu"] = bias_split_gelu;
}

}  // namespace gyrus::onnx
