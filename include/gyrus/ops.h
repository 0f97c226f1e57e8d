#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "gyrus/graph.h"

// The ops as functions of values, one line each: every call appends a node to the graph of its operands. docs/ops.md
// tells their attributes and element types; src/ops what exactly they compute. Operands broadcast as in numpy where
// that makes sense.

namespace gyrus {

// Any op by its name. Operands without a graph are absent; those behind the last that is present are left out.
Value apply(const std::string& op, const std::vector<Value>& operands, Attrs attrs = {});
// A scalar beside `like`, in its element type.
Value scalar(Value like, double value);

// Elementwise.
inline Value relu(Value x) { return apply("relu", {x}); }
inline Value leaky_relu(Value x, double alpha = 0.01) { return apply("leaky_relu", {x}, {{"alpha", alpha}}); }
inline Value elu(Value x, double alpha = 1) { return apply("elu", {x}, {{"alpha", alpha}}); }
inline Value gelu(Value x) { return apply("gelu", {x}); }
inline Value gelu_tanh(Value x) { return apply("gelu", {x}, {{"approximate", "tanh"}}); }
inline Value silu(Value x) { return apply("silu", {x}); }
inline Value sigmoid(Value x) { return apply("sigmoid", {x}); }
inline Value tanh(Value x) { return apply("tanh", {x}); }
inline Value softplus(Value x) { return apply("softplus", {x}); }
inline Value exp(Value x) { return apply("exp", {x}); }
inline Value log(Value x) { return apply("log", {x}); }
inline Value sqrt(Value x) { return apply("sqrt", {x}); }
inline Value rsqrt(Value x) { return apply("rsqrt", {x}); }
inline Value normal_cdf(Value x) { return apply("normal_cdf", {x}); }
inline Value step(Value x) { return apply("step", {x}); }
inline Value neg(Value x) { return apply("neg", {x}); }
inline Value abs(Value x) { return apply("abs", {x}); }
inline Value square(Value x) { return apply("square", {x}); }
inline Value add(Value a, Value b) { return apply("add", {a, b}); }
inline Value sub(Value a, Value b) { return apply("sub", {a, b}); }
inline Value mul(Value a, Value b) { return apply("mul", {a, b}); }
inline Value div(Value a, Value b) { return apply("div", {a, b}); }
inline Value min(Value a, Value b) { return apply("min", {a, b}); }
inline Value max(Value a, Value b) { return apply("max", {a, b}); }
inline Value pow(Value a, Value b) { return apply("pow", {a, b}); }
inline Value affine(Value x, double scale, double shift) {
  return apply("affine", {x}, {{"scale", scale}, {"shift", shift}});
}
inline Value mish(Value x) { return apply("mish", {x}); }
inline Value hard_sigmoid(Value x, double alpha = 0.2, double beta = 0.5) {
  return apply("hard_sigmoid", {x}, {{"alpha", alpha}, {"beta", beta}});
}
inline Value hard_swish(Value x) { return apply("hard_swish", {x}); }
inline Value selu(Value x) { return apply("selu", {x}); }
inline Value celu(Value x, double alpha = 1) { return apply("celu", {x}, {{"alpha", alpha}}); }
inline Value softsign(Value x) { return apply("softsign", {x}); }
inline Value relu6(Value x) { return apply("relu6", {x}); }
// x itself, through which no gradient goes.
inline Value detach(Value x) { return apply("detach", {x}); }
// y; where a network only runs (inference_graph), x.
inline Value in_training(Value x, Value y) { return apply("in_training", {x, y}); }
inline Value thresholded_relu(Value x, double alpha = 1) { return apply("thresholded_relu", {x}, {{"alpha", alpha}}); }
inline Value shrink(Value x, double lambd = 0.5, double bias = 0) {
  return apply("shrink", {x}, {{"lambd", lambd}, {"bias", bias}});
}
inline Value prelu(Value x, Value slope) { return apply("prelu", {x, slope}); }
inline Value sin(Value x) { return apply("sin", {x}); }
inline Value cos(Value x) { return apply("cos", {x}); }
inline Value tan(Value x) { return apply("tan", {x}); }
inline Value asin(Value x) { return apply("asin", {x}); }
inline Value acos(Value x) { return apply("acos", {x}); }
inline Value atan(Value x) { return apply("atan", {x}); }
inline Value sinh(Value x) { return apply("sinh", {x}); }
inline Value cosh(Value x) { return apply("cosh", {x}); }
inline Value asinh(Value x) { return apply("asinh", {x}); }
inline Value acosh(Value x) { return apply("acosh", {x}); }
inline Value atanh(Value x) { return apply("atanh", {x}); }
inline Value log1p(Value x) { return apply("log1p", {x}); }
inline Value expm1(Value x) { return apply("expm1", {x}); }
inline Value erf(Value x) { return apply("erf", {x}); }
inline Value reciprocal(Value x) { return apply("reciprocal", {x}); }
inline Value round(Value x) { return apply("round", {x}); }
inline Value floor(Value x) { return apply("floor", {x}); }
inline Value ceil(Value x) { return apply("ceil", {x}); }
inline Value trunc(Value x) { return apply("trunc", {x}); }
inline Value sign(Value x) { return apply("sign", {x}); }
inline Value isnan(Value x) { return apply("isnan", {x}); }
inline Value logical_not(Value x) { return apply("logical_not", {x}); }
inline Value isinf(Value x, bool negative = true, bool positive = true) {
  return apply("isinf", {x}, {{"negative", int64_t{negative}}, {"positive", int64_t{positive}}});
}
inline Value atan2(Value a, Value b) { return apply("atan2", {a, b}); }
inline Value mod(Value a, Value b) { return apply("mod", {a, b}); }
inline Value fmod(Value a, Value b) { return apply("fmod", {a, b}); }
inline Value to_bits(Value x) { return apply("to_bits", {x}); }
inline Value from_bits(Value x) { return apply("from_bits", {x}); }
inline Value idiv(Value a, Value b) { return apply("idiv", {a, b}); }
inline Value equal(Value a, Value b) { return apply("equal", {a, b}); }
inline Value less(Value a, Value b) { return apply("less", {a, b}); }
inline Value less_equal(Value a, Value b) { return apply("less_equal", {a, b}); }
inline Value greater(Value a, Value b) { return apply("greater", {a, b}); }
inline Value greater_equal(Value a, Value b) { return apply("greater_equal", {a, b}); }
inline Value logical_and(Value a, Value b) { return apply("logical_and", {a, b}); }
inline Value logical_or(Value a, Value b) { return apply("logical_or", {a, b}); }
inline Value logical_xor(Value a, Value b) { return apply("logical_xor", {a, b}); }
inline Value bit_and(Value a, Value b) { return apply("bit_and", {a, b}); }
inline Value bit_or(Value a, Value b) { return apply("bit_or", {a, b}); }
inline Value bit_xor(Value a, Value b) { return apply("bit_xor", {a, b}); }
inline Value shift_left(Value a, Value b) { return apply("shift_left", {a, b}); }
inline Value shift_right(Value a, Value b) { return apply("shift_right", {a, b}); }
inline Value where(Value condition, Value a, Value b) { return apply("where", {condition, a, b}); }
inline Value clamp(Value x, double lo, double hi) { return apply("affine_clamp", {x}, {{"lo", lo}, {"hi", hi}}); }
inline Value cast(Value x, DType to) { return apply("cast", {x}, {{"to", to_string(to)}}); }

inline Value operator-(Value x) { return neg(x); }
inline Value operator+(Value a, Value b) { return add(a, b); }
inline Value operator-(Value a, Value b) { return sub(a, b); }
inline Value operator*(Value a, Value b) { return mul(a, b); }
inline Value operator/(Value a, Value b) { return div(a, b); }
inline Value operator+(Value a, double b) { return add(a, scalar(a, b)); }
inline Value operator-(Value a, double b) { return sub(a, scalar(a, b)); }
inline Value operator*(Value a, double b) { return mul(a, scalar(a, b)); }
inline Value operator/(Value a, double b) { return div(a, scalar(a, b)); }
inline Value operator+(double a, Value b) { return add(scalar(b, a), b); }
inline Value operator-(double a, Value b) { return sub(scalar(b, a), b); }
inline Value operator*(double a, Value b) { return mul(scalar(b, a), b); }
inline Value operator/(double a, Value b) { return div(scalar(b, a), b); }

// Movement. One extent of a new shape may be -1.
inline Value reshape(Value x, const Shape& shape) { return apply("reshape", {x}, {{"shape", shape}}); }
inline Value transpose(Value x, const std::vector<int64_t>& perm) { return apply("transpose", {x}, {{"perm", perm}}); }
inline Value slice(Value x, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends) {
  return apply("slice", {x}, {{"starts", starts}, {"ends", ends}});
}
inline Value slice(Value x, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                   const std::vector<int64_t>& steps) {
  return apply("slice", {x}, {{"starts", starts}, {"ends", ends}, {"steps", steps}});
}
inline Value concat(const std::vector<Value>& parts, int64_t axis) { return apply("concat", parts, {{"axis", axis}}); }
// `pads`: elements before each axis, then after each.
inline Value pad(Value x, const std::vector<int64_t>& pads, double value = 0) {
  return apply("pad", {x}, {{"pads", pads}, {"value", value}});
}
inline Value expand(Value x, const Shape& shape) { return apply("expand", {x}, {{"shape", shape}}); }
inline Value gather(Value data, Value indices, int64_t axis = 0) {
  return apply("gather", {data, indices}, {{"axis", axis}});
}
inline Value gather_elements(Value data, Value indices, int64_t axis) {
  return apply("gather_elements", {data, indices}, {{"axis", axis}});
}
inline Value gather_nd(Value data, Value indices, int64_t batch_dims = 0) {
  return apply("gather_nd", {data, indices}, {{"batch_dims", batch_dims}});
}
// `reduction` is "none", "add", "mul", "min" or "max".
inline Value scatter_elements(Value data, Value indices, Value updates, int64_t axis,
                              const std::string& reduction = "none") {
  return apply("scatter_elements", {data, indices, updates}, {{"axis", axis}, {"reduction", reduction}});
}
inline Value scatter_nd(Value data, Value indices, Value updates, const std::string& reduction = "none") {
  return apply("scatter_nd", {data, indices, updates}, {{"reduction", reduction}});
}
// x [N,C,spatial…] between its elements: `at` has for each spatial axis where, in elements, f32 [N,out…]; 0 outside.
// `mode` is "linear" or "nearest".
inline Value sample(Value x, const std::vector<Value>& at, const std::string& mode = "linear") {
  std::vector<Value> operands = {x};
  operands.insert(operands.end(), at.begin(), at.end());
  return apply("sample", operands, {{"mode", mode}});
}
// `base` with `value` over it from position `start` of the axis on, a number or a scalar value such as an argument.
inline Value update_slice(Value base, Value value, int64_t axis, int64_t start) {
  return apply("update_slice", {base, value}, {{"axis", axis}, {"start", start}});
}
inline Value update_slice(Value base, Value value, int64_t axis, Value start) {
  return apply("update_slice", {base, value, start}, {{"axis", axis}});
}

// Reductions over axes, which may count from the end.
struct Reduce {
  std::vector<int64_t> axes{};  // empty: all
  bool keepdims = false;
};
Value reduce(const std::string& op, Value x, const Reduce& over);
inline Value reduce_sum(Value x, const Reduce& over = {}) { return reduce("reduce_sum", x, over); }
inline Value reduce_prod(Value x, const Reduce& over = {}) { return reduce("reduce_prod", x, over); }
inline Value reduce_mean(Value x, const Reduce& over = {}) { return reduce("reduce_mean", x, over); }
inline Value reduce_max(Value x, const Reduce& over = {}) { return reduce("reduce_max", x, over); }
inline Value reduce_min(Value x, const Reduce& over = {}) { return reduce("reduce_min", x, over); }
inline Value argmax(Value x, int64_t axis, bool keepdims = false, DType dtype = DType::U32) {
  return apply("argmax", {x}, {{"axis", axis}, {"keepdims", int64_t{keepdims}}, {"dtype", to_string(dtype)}});
}
inline Value argmin(Value x, int64_t axis, bool keepdims = false, DType dtype = DType::U32) {
  return apply("argmin", {x}, {{"axis", axis}, {"keepdims", int64_t{keepdims}}, {"dtype", to_string(dtype)}});
}
inline Value cumsum(Value x, int64_t axis, bool exclusive = false, bool reverse = false) {
  return apply("cumsum", {x}, {{"axis", axis}, {"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}});
}
inline Value cumprod(Value x, int64_t axis, bool exclusive = false, bool reverse = false) {
  return apply("cumprod", {x}, {{"axis", axis}, {"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}});
}
// The k largest or smallest along an axis in their order, and their positions (i32).
struct TopK {
  Value values, positions;
};
TopK top_k(Value x, int64_t k, int64_t axis, bool largest = true);
inline Value softmax(Value x, int64_t axis) { return apply("softmax", {x}, {{"axis", axis}}); }
inline Value log_softmax(Value x, int64_t axis) { return apply("log_softmax", {x}, {{"axis", axis}}); }
// Over the axes from `axis` on; gamma and beta have their shape, or are absent.
inline Value layer_norm(Value x, Value gamma = {}, Value beta = {}, int64_t axis = -1, double eps = 1e-5) {
  return apply("layer_norm", {x, gamma, beta}, {{"axis", axis}, {"eps", eps}});
}
inline Value rms_norm(Value x, Value gamma = {}, int64_t axis = -1, double eps = 1e-5) {
  return apply("rms_norm", {x, gamma}, {{"axis", axis}, {"eps", eps}});
}

// Products.
struct MatmulOptions {
  Value bias{};  // [N]
  bool transpose_a = false, transpose_b = false;
};
inline Value matmul(Value a, Value b, const MatmulOptions& options = {}) {
  return apply("matmul", {a, b, options.bias},
               {{"transpose_a", int64_t{options.transpose_a}}, {"transpose_b", int64_t{options.transpose_b}}});
}
// x [N,C,spatial…], weight [O,C/groups,k…]; lists have one number for each spatial axis or are empty.
struct ConvOptions {
  Value bias{};  // [O]
  std::vector<int64_t> stride{}, dilation{};
  std::vector<int64_t> pads{};  // zeros before each axis, then after each
  int64_t groups = 1;
};
Value conv(Value x, Value weight, const ConvOptions& options = {});

// Norms of x [N,C,…]; gamma and beta [C] or neither.
inline Value group_norm(Value x, int64_t groups, Value gamma = {}, Value beta = {}, double eps = 1e-5) {
  return apply("group_norm", {x, gamma, beta}, {{"groups", groups}, {"eps", eps}});
}
inline Value instance_norm(Value x, Value gamma = {}, Value beta = {}, double eps = 1e-5) {
  return apply("instance_norm", {x, gamma, beta}, {{"eps", eps}});
}
inline Value batch_norm(Value x, Value mean, Value variance, Value gamma = {}, Value beta = {}, double eps = 1e-5) {
  return apply("batch_norm", {x, mean, variance, gamma, beta}, {{"eps", eps}});
}

}  // namespace gyrus
