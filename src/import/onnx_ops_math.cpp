// Elementwise ops.

#include <cmath>

#include "import/onnx_ops.h"

namespace gyrus::onnx {
namespace {

int bits_of(Elem elem) {
  switch (elem) {
    case Elem::U4:
    case Elem::I4: return 4;
    case Elem::U8:
    case Elem::I8: return 8;
    case Elem::U16:
    case Elem::I16: return 16;
    default: return 32;
  }
}

// Bytes have no arithmetic on devices: they are computed as i32.
Val wide(Val x) {
  if (x.dtype() == DType::U8) return as(op("cast", {x}, {{"to", "i32"}}), Elem::I32);
  if (x.elem == Elem::I4 || x.elem == Elem::I8 || x.elem == Elem::I16) return as(x, Elem::I32);
  if (x.elem == Elem::U16 || x.elem == Elem::U64) return as(x, Elem::U32);
  return x;
}

// Integers that are known are divided at once, whatever devices can do.
Val divided(Val a, Val b) {
  const Shape shape = broadcast(a.shape(), b.shape());
  const Ints x = integers(expand(a, shape).constant()), y = integers(expand(b, shape).constant());
  Tensor result(a.dtype(), shape);
  for (size_t i = 0; i < x.size(); ++i) {
    if (y[i] == 0) invalid("divides by 0");
    set(result, static_cast<int64_t>(i), static_cast<double>(y[i] == -1 ? -x[i] : x[i] / y[i]));
  }
  return constant(*a.graph, std::move(result), a.elem);
}

// An op on numbers whose result has the element type of the operands and wraps around where that is narrow.
Val arithmetic(const char* name, Vals operands) {
  const Elem elem = operands[0].elem;
  for (Val& x : operands) x = wide(x);
  if (std::string_view(name) == "div" && is_integer(operands[0]) && operands[0].is_constant() &&
      operands[1].is_constant())
    return as(divided(operands[0], operands[1]), operands[0].elem);
  const bool whole = std::string_view(name) == "div" && is_integer(operands[0]);
  const Val result = op(whole ? "idiv" : name, operands);
  return bits_of(elem) < 32 ? cast(result, elem) : as(result, elem);
}

// Before opset 7 the second operand lies along the axes of the first from `axis` on, or has its shape.
Vals aligned(Ctx& c) {
  Val a = c.in(0), b = c.in(1);
  if (c.opset() < 7 && c.integer("broadcast", 0) != 0 && c.has_attr("axis")) {
    const size_t axis = axis_of(c.integer("axis"), a.rank());
    Shape shape(a.rank(), 1);
    for (size_t i = 0; i < b.rank() && axis + i < a.rank(); ++i) shape[axis + i] = b.shape()[i];
    b = reshape(b, shape);
  }
  return {a, b};
}

template <const char* const& kName>
Vals binary(Ctx& c) {
  return {arithmetic(kName, aligned(c))};
}

// A function of one float operand without attributes.
Val unary(const char* name, Val x) {
  if (!is_float(x)) return arithmetic(name, {x});
  return op(name, {x});
}

// Names that stand in tables as template arguments.
#define GYRUS_NAME(id, text) constexpr const char* id = (text)
GYRUS_NAME(kAdd, "add");
GYRUS_NAME(kSub, "sub");
GYRUS_NAME(kMul, "mul");
GYRUS_NAME(kDiv, "div");
GYRUS_NAME(kMin, "min");
GYRUS_NAME(kMax, "max");
GYRUS_NAME(kAnd, "logical_and");
GYRUS_NAME(kOr, "logical_or");
GYRUS_NAME(kXor, "logical_xor");
GYRUS_NAME(kBitAnd, "bit_and");
GYRUS_NAME(kBitOr, "bit_or");
GYRUS_NAME(kBitXor, "bit_xor");
GYRUS_NAME(kEqual, "equal");
GYRUS_NAME(kLess, "less");
GYRUS_NAME(kLessEqual, "less_equal");
GYRUS_NAME(kGreater, "greater");
GYRUS_NAME(kGreaterEqual, "greater_equal");
#undef GYRUS_NAME

template <const char* const& kName>
Vals logic(Ctx& c) {
  return {op(kName, aligned(c))};
}

template <const char* const& kName>
Vals compare(Ctx& c) {
  Vals x = aligned(c);
  if (x[0].dtype() != DType::Bool)
    for (Val& v : x) v = wide(v);
  return {op(kName, x)};
}

template <const char* const& kName>
Vals variadic(Ctx& c) {
  Val result = c.in(0);
  for (size_t i = 1; i < c.inputs(); ++i) result = arithmetic(kName, {result, c.in(i)});
  return {result};
}

Vals mean(Ctx& c) { return {variadic<kAdd>(c)[0] / static_cast<double>(c.inputs())}; }

Vals clip(Ctx& c) {
  Val x = c.in(0);
  if (c.opset() < 11) {
    if (c.has_attr("min")) x = op("max", {x, scalar(x, c.number("min", 0))});
    if (c.has_attr("max")) x = op("min", {x, scalar(x, c.number("max", 0))});
    return {x};
  }
  if (c.has(1)) x = arithmetic("max", {x, c.in(1)});
  if (c.has(2)) x = arithmetic("min", {x, c.in(2)});
  return {x};
}

Vals relu(Ctx& c) {
  const Val x = c.in(0);
  return {is_float(x) ? op("relu", {x}) : arithmetic("max", {x, scalar(x, 0)})};
}

Vals power(Ctx& c) {
  const Vals pair = aligned(c);
  const Val a = pair[0], b = pair[1];
  if (is_float(a)) {
    if (b.is_constant() && b.size() == 1 && get(b.constant(), 0) == 2 && b.rank() <= a.rank())
      return {reshape(op("square", {a}), broadcast(a.shape(), b.shape()))};
    return {op("pow", {a, cast(b, a.elem)})};
  }
  // Integers to a power are exact as floats up to 2^24.
  const Val result = op("pow", {cast(a, Elem::F32), cast(b, Elem::F32)});
  return {cast(is_float(b) ? result : op("round", {result}), a.elem)};
}

Vals modulo(Ctx& c) {
  const bool fmod = c.integer("fmod", 0) != 0;
  return {arithmetic(fmod ? "fmod" : "mod", {c.in(0), c.in(1)})};
}

Vals prelu(Ctx& c) {
  Val x = c.in(0), slope = c.in(1);
  if (c.opset() < 7 && slope.rank() == 1 && x.rank() > 1) {
    Shape shape(x.rank(), 1);
    shape[1] = slope.shape()[0];
    slope = reshape(slope, shape);
  }
  return {op("prelu", {x, slope})};
}

Vals gelu(Ctx& c) {
  const std::string approximate = c.text("approximate", "none");
  return {approximate == "tanh" ? op("gelu", {c.in(0)}, {{"approximate", "tanh"}}) : op("gelu", {c.in(0)})};
}

Vals swish(Ctx& c) {
  const Val x = c.in(0);
  return {x * op("sigmoid", {x * c.number("alpha", 1)})};
}

Vals is_infinite(Ctx& c) {
  return {op("isinf", {c.in(0)},
             {{"negative", c.integer("detect_negative", 1)}, {"positive", c.integer("detect_positive", 1)}})};
}

Vals shift(Ctx& c) {
  const std::string direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") invalid("direction is neither LEFT nor RIGHT");
  return {arithmetic(direction == "LEFT" ? "shift_left" : "shift_right", {c.in(0), c.in(1)})};
}

Vals select(Ctx& c) {
  Val a = c.in(1), b = c.in(2);
  const Elem elem = a.elem;
  if (a.dtype() == DType::U8) a = wide(a), b = wide(b);
  return {cast(where(c.in(0), a, b), elem)};
}

Vals bit_not(Ctx& c) {
  const Val x = c.in(0);
  const Val bits = wide(x);
  const Val result = op("bit_xor", {bits, scalar(bits, bits.dtype() == DType::U32 ? 4294967295.0 : -1.0)});
  return {bits_of(x.elem) < 32 ? cast(result, x.elem) : as(result, x.elem)};
}

// The same bits under another type.
Vals bit_cast(Ctx& c) {
  const Val x = c.in(0);
  const Elem to = static_cast<Elem>(c.integer("to"));
  const auto is = [&](Elem a, Elem b) { return (x.elem == a && to == b) || (x.elem == b && to == a); };
  if (x.elem == to) return {x};
  if (is(Elem::Bool, Elem::U8) || is(Elem::U8, Elem::I8) || is(Elem::U16, Elem::I16)) return {cast(x, to)};
  if (x.elem == Elem::F32 && to == Elem::U32) return {as(op("to_bits", {x}), to)};
  if (x.elem == Elem::F32 && to == Elem::I32) return {with_sign(as(op("to_bits", {x}), Elem::U32))};
  if ((x.elem == Elem::I32 || x.elem == Elem::U32) && to == Elem::F32) return {as(op("from_bits", {x}), to)};
  if (x.elem == Elem::U32 && to == Elem::I32) return {with_sign(x)};
  if (x.elem == Elem::I32 && to == Elem::U32) return {without_sign(x)};
  unsupported(cat("the bits of ", to_string(x.elem), " as ", to_string(to)));
}

Vals cast_node(Ctx& c) { return {cast(c.in(0), static_cast<Elem>(c.integer("to")))}; }
Vals cast_like(Ctx& c) { return {cast(c.in(0), c.in(1).elem)}; }

Vals with_alpha(Ctx& c, const char* name, double alpha) {
  return {op(name, {c.in(0)}, {{"alpha", c.number("alpha", alpha)}})};
}

}  // namespace

void add_math_ops(OpTable& t) {
#define GYRUS_UNARY(onnx, name) t[onnx] = [](Ctx& c) { return Vals{unary(name, c.in(0))}; }
  GYRUS_UNARY("Acos", "acos");
  GYRUS_UNARY("Acosh", "acosh");
  GYRUS_UNARY("Asin", "asin");
  GYRUS_UNARY("Asinh", "asinh");
  GYRUS_UNARY("Atan", "atan");
  GYRUS_UNARY("Atanh", "atanh");
  GYRUS_UNARY("Ceil", "ceil");
  GYRUS_UNARY("Cos", "cos");
  GYRUS_UNARY("Cosh", "cosh");
  GYRUS_UNARY("Erf", "erf");
  GYRUS_UNARY("Exp", "exp");
  GYRUS_UNARY("Floor", "floor");
  GYRUS_UNARY("HardSwish", "hard_swish");
  GYRUS_UNARY("Log", "log");
  GYRUS_UNARY("Mish", "mish");
  GYRUS_UNARY("Neg", "neg");
  GYRUS_UNARY("Reciprocal", "reciprocal");
  GYRUS_UNARY("Round", "round");
  GYRUS_UNARY("Sigmoid", "sigmoid");
  GYRUS_UNARY("Sin", "sin");
  GYRUS_UNARY("Sinh", "sinh");
  GYRUS_UNARY("Softplus", "softplus");
  GYRUS_UNARY("Softsign", "softsign");
  GYRUS_UNARY("Sqrt", "sqrt");
  GYRUS_UNARY("Tan", "tan");
  GYRUS_UNARY("Tanh", "tanh");
#undef GYRUS_UNARY
  t["Abs"] = [](Ctx& c) {
    return Vals{wide(c.in(0)).dtype() == DType::U32 || c.in(0).elem == Elem::U8 ? c.in(0) : unary("abs", c.in(0))};
  };
  t["Sign"] = [](Ctx& c) {
    const Val x = c.in(0), all = wide(x);
    return Vals{all.dtype() == DType::U32 ? cast(op("min", {all, scalar(all, 1)}), x.elem) : unary("sign", x)};
  };
  t["IsNaN"] = [](Ctx& c) { return Vals{op("isnan", {c.in(0)})}; };
  t["Not"] = [](Ctx& c) { return Vals{op("logical_not", {c.in(0)})}; };
  t["Relu"] = relu;
  t["LeakyRelu"] = [](Ctx& c) { return with_alpha(c, "leaky_relu", 0.01); };
  t["Elu"] = [](Ctx& c) { return with_alpha(c, "elu", 1); };
  t["Celu"] = [](Ctx& c) { return with_alpha(c, "celu", 1); };
  t["ThresholdedRelu"] = [](Ctx& c) { return with_alpha(c, "thresholded_relu", 1); };
  t["Selu"] = [](Ctx& c) {
    // Opset 1 rounded these numbers.
    return Vals{op("selu", {c.in(0)},
                   {{"alpha", c.number("alpha", c.opset() < 6 ? 1.6732 : 1.67326319217681884765625)},
                    {"gamma", c.number("gamma", c.opset() < 6 ? 1.0507 : 1.05070102214813232421875)}})};
  };
  t["HardSigmoid"] = [](Ctx& c) {
    return Vals{op("hard_sigmoid", {c.in(0)}, {{"alpha", c.number("alpha", 0.2)}, {"beta", c.number("beta", 0.5)}})};
  };
  t["Shrink"] = [](Ctx& c) {
    const Val x = c.in(0);
    const Val y = op("shrink", {is_float(x) ? x : cast(x, Elem::F32)},
                     {{"lambd", c.number("lambd", 0.5)}, {"bias", c.number("bias", 0)}});
    return Vals{cast(y, x.elem)};
  };
  t["Gelu"] = gelu;
  t["Swish"] = swish;
  t["IsInf"] = is_infinite;
  t["Add"] = binary<kAdd>;
  t["Sub"] = binary<kSub>;
  t["Mul"] = binary<kMul>;
  t["Div"] = binary<kDiv>;
  t["Pow"] = power;
  t["Mod"] = modulo;
  t["PRelu"] = prelu;
  t["Max"] = variadic<kMax>;
  t["Min"] = variadic<kMin>;
  t["Sum"] = variadic<kAdd>;
  t["Mean"] = mean;
  t["Clip"] = clip;
  t["And"] = logic<kAnd>;
  t["Or"] = logic<kOr>;
  t["Xor"] = logic<kXor>;
  t["BitwiseAnd"] = binary<kBitAnd>;
  t["BitwiseOr"] = binary<kBitOr>;
  t["BitwiseXor"] = binary<kBitXor>;
  t["BitwiseNot"] = bit_not;
  t["BitShift"] = shift;
  t["Equal"] = compare<kEqual>;
  t["Less"] = compare<kLess>;
  t["LessOrEqual"] = compare<kLessEqual>;
  t["Greater"] = compare<kGreater>;
  t["GreaterOrEqual"] = compare<kGreaterEqual>;
  t["Where"] = select;
  t["BitCast"] = bit_cast;
  t["Cast"] = cast_node;
  t["CastLike"] = cast_like;
}

}  // namespace gyrus::onnx
