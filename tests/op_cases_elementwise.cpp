#include <cmath>

#include "op_cases_build.h"

namespace gyrus::test {
namespace {

void add_unary(std::vector<OpCase>& cases, OpCase base, Shape shape, Attrs attrs = {}, DType dtype = DType::F32) {
  cases.push_back(make_case(base, [op = base.op, shape, attrs, dtype](CaseBuilder& b) {
    b.output(b.add(op, {b.input(shape, dtype)}, attrs));
  }));
}

void add_activations(std::vector<OpCase>& cases) {
  for (const std::string op : {"relu", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh", "softplus"}) {
    add_unary(cases, {op + "_3d", op, {}, Fill::Normal, 0, 3}, {1, 5, 6, 7, 5});
    add_unary(cases, {op + "_extreme", op, {}, Fill::Extreme, 0, 1e4}, {3, 1031});
    add_unary(cases, {op + "_scalar", op, {}}, {});
  }
  add_unary(cases, {"leaky_relu_alpha", "leaky_relu", {}}, {2, 3, 17}, {{"alpha", 0.3}});
  add_unary(cases, {"elu_alpha", "elu", {}}, {2, 3, 17}, {{"alpha", 0.3}});
  add_unary(cases, {"elu_small", "elu", {}, Fill::Uniform, -1e-3, 1e-3}, {257});
  add_unary(cases, {"gelu_tails", "gelu", {}, Fill::Uniform, -6, 6}, {1, 4, 11, 12, 13});
  add_unary(cases, {"gelu_tanh", "gelu", {}, Fill::Uniform, -6, 6}, {1, 4, 9, 10, 5}, {{"approximate", "tanh"}});
  add_unary(cases, {"gelu_tanh_extreme", "gelu", {}, Fill::Extreme, 0, 1e4}, {1031}, {{"approximate", "tanh"}});
  add_unary(cases, {"relu_f16", "relu", {}}, {1, 3, 5, 7}, {}, DType::F16);
}

void add_functions(std::vector<OpCase>& cases) {
  add_unary(cases, {"exp_wide", "exp", {}, Fill::Uniform, -80, 80}, {5, 201});
  add_unary(cases, {"exp_3d", "exp", {}}, {1, 3, 4, 5, 7});
  add_unary(cases, {"log_wide", "log", {}, Fill::Uniform, 1e-3, 1e4}, {4, 101});
  add_unary(cases, {"sqrt_positive", "sqrt", {}, Fill::Uniform, 0, 1e4}, {4, 101});
  add_unary(cases, {"rsqrt_positive", "rsqrt", {}, Fill::Uniform, 1e-3, 1e4}, {4, 101});
  add_unary(cases, {"normal_cdf_tails", "normal_cdf", {}, Fill::Uniform, -6, 6}, {1, 5, 4, 3, 7});
  OpCase step{"step_zeros", "step", {}, Fill::Whole, -2, 2};
  step.exact = true;
  add_unary(cases, step, {1, 5, 4, 3, 7});
  add_unary(cases, {"affine_defaults", "affine", {}}, {2, 3, 17});
  add_unary(cases, {"affine_scale", "affine", {}}, {2, 3, 17}, {{"scale", -0.75}});
  add_unary(cases, {"affine_both", "affine", {}}, {1, 5, 4, 3, 7}, {{"scale", -0.75}, {"shift", 0.3}});
  for (const std::string op : {"neg", "abs", "square"}) {
    add_unary(cases, {op + "_3d", op, {}}, {1, 5, 4, 3, 7});
    OpCase whole{op + "_i32", op, {}, Fill::Whole, -1000, 1000};
    whole.exact = true;
    add_unary(cases, whole, {3, 67}, {}, DType::I32);
  }
}

void add_more_activations(std::vector<OpCase>& cases) {
  for (const std::string op : {"mish", "hard_sigmoid", "hard_swish", "selu", "celu", "softsign", "relu6", "detach",
                               "thresholded_relu", "shrink"}) {
    add_unary(cases, {op + "_3d", op, {}, Fill::Normal, 0, 3}, {1, 5, 6, 7, 5});
    add_unary(cases, {op + "_extreme", op, {}, Fill::Extreme, 0, 1e4}, {1031});
  }
  add_unary(cases, {"hard_sigmoid_alpha", "hard_sigmoid", {}}, {2, 3, 17}, {{"alpha", 0.4}});
  add_unary(cases, {"hard_sigmoid_beta", "hard_sigmoid", {}}, {2, 3, 17}, {{"beta", 0.1}});
  add_unary(cases, {"selu_alpha", "selu", {}}, {2, 3, 17}, {{"alpha", 0.5}});
  add_unary(cases, {"selu_gamma", "selu", {}}, {2, 3, 17}, {{"gamma", 2.5}});
  add_unary(cases, {"celu_alpha", "celu", {}}, {2, 3, 17}, {{"alpha", 0.4}});
  add_unary(cases, {"thresholded_relu_alpha", "thresholded_relu", {}}, {2, 3, 17}, {{"alpha", 0.25}});
  add_unary(cases, {"shrink_lambd", "shrink", {}}, {2, 3, 17}, {{"lambd", 0.9}});
  add_unary(cases, {"shrink_bias", "shrink", {}}, {2, 3, 17}, {{"bias", 0.3}});
}

void add_more_functions(std::vector<OpCase>& cases) {
  const auto range = [&](const std::string& op, const std::string& suffix, double lo, double hi) {
    add_unary(cases, {op + suffix, op, {}, Fill::Uniform, lo, hi}, {3, 401});
  };
  for (const std::string op : {"sin", "cos"}) {
    range(op, "_turns", -7, 7);
    range(op, "_far", -5000, 5000);
  }
  range("tan", "_turns", -1.4, 1.4);
  range("asin", "_range", -1, 1);
  range("acos", "_range", -1, 1);
  range("atan", "_near", -3, 3);
  range("atan", "_far", -1e4, 1e4);
  range("sinh", "_near", -2, 2);
  range("sinh", "_far", -20, 20);
  range("cosh", "_far", -20, 20);
  range("asinh", "_near", -2, 2);
  range("asinh", "_far", -1e6, 1e6);
  range("acosh", "_near", 1, 3);
  range("acosh", "_far", 1, 1e6);
  range("atanh", "_range", -0.95, 0.95);
  range("log1p", "_near", -0.9, 2);
  range("log1p", "_far", 0, 1e5);
  range("expm1", "_near", -2, 2);
  range("erf", "_near", -1.5, 1.5);
  range("erf", "_far", -6, 6);
  range("reciprocal", "_positive", 0.1, 9);
  for (const std::string op : {"round", "floor", "ceil", "trunc", "sign"}) {
    OpCase c{op + "_halves", op, {}, Fill::Whole, -9, 9};
    c.exact = true;
    cases.push_back(make_case(c, [op](CaseBuilder& b) {
      b.output(b.add(op, {b.add("affine", {b.input({3, 67})}, {{"scale", 0.25}})}));
    }));
  }
  OpCase sign{"sign_i32", "sign", {}, Fill::Whole, -2, 2};
  sign.exact = true;
  add_unary(cases, sign, {3, 67}, {}, DType::I32);
}

void add_affine_and_cast(std::vector<OpCase>& cases) {
  const Attrs window = {{"scale", 0.0625}, {"shift", -0.5}, {"lo", 0.0}, {"hi", 1.0}};
  for (const DType dtype : {DType::U8, DType::I32, DType::U32, DType::F32, DType::F16}) {
    const std::string name = to_string(dtype);
    OpCase c{"affine_clamp_" + name, "affine_clamp", {}, Fill::Whole, -40, 255};
    c.exact = true;
    add_unary(cases, c, {1, 1, 7, 9, 5}, window, dtype);
  }
  add_unary(cases, {"affine_clamp_defaults", "affine_clamp", {}}, {1, 5, 3, 4, 7});
  for (const DType from : {DType::F32, DType::F16, DType::I32, DType::U32, DType::U8})
    for (const std::string to : {"f32", "f16", "i32", "u32", "u8"}) {
      OpCase c{std::string("cast_") + to_string(from) + "_" + to, "cast", {}, Fill::Uniform, -400, 400};
      c.exact = from != DType::F32 || to != "f16";  // WGSL leaves open how a half is rounded
      add_unary(cases, c, {3, 87}, {{"to", to}}, from);
    }
  OpCase out_of_range{"cast_f32_i32_clamps", "cast", {}, Fill::Extreme, 0, 1e12};
  out_of_range.exact = true;
  add_unary(cases, out_of_range, {411}, {{"to", "i32"}});
  out_of_range.name = "cast_f32_u32_clamps";
  add_unary(cases, out_of_range, {411}, {{"to", "u32"}});
}

void add_binary(std::vector<OpCase>& cases, OpCase base, Shape a, Shape b, bool constant = false,
                DType a_type = DType::F32, DType b_type = DType::F32) {
  cases.push_back(make_case(base, [op = base.op, a, b, constant, a_type, b_type](CaseBuilder& build) {
    const ValueId x = build.input(a, a_type);
    build.output(build.add(op, {x, constant ? build.constant(b, b_type) : build.input(b, b_type)}));
  }));
}

void add_binaries(std::vector<OpCase>& cases) {
  for (const std::string op : {"add", "sub", "mul", "div", "min", "max"}) {
    const auto with = [&](const std::string& suffix) { return OpCase{op + suffix, op, {}, Fill::Uniform, 0.5, 3}; };
    add_binary(cases, with("_same"), {1, 5, 6, 7, 5}, {1, 5, 6, 7, 5});
    add_binary(cases, with("_constant_channel"), {2, 5, 3, 4, 7}, {1, 5, 1, 1, 1}, true);
    add_binary(cases, with("_scalar"), {2, 3, 17}, {});
    add_binary(cases, with("_scalar_first"), {}, {2, 3, 17});
    add_binary(cases, with("_both_sides"), {4, 1, 7}, {3, 1, 5, 1});
  }
  add_binary(cases, {"add_row", "add", {}}, {6, 31}, {31}, true);
  add_binary(cases, {"add_rank6", "add", {}}, {2, 1, 3, 1, 5, 2}, {1, 4, 1, 3, 1, 2});
  add_binary(cases, {"mul_f16_f32", "mul", {}}, {3, 41}, {3, 41}, false, DType::F16, DType::F32);
  add_binary(cases, {"add_f16", "add", {}}, {3, 41}, {41}, false, DType::F16, DType::F16);
  for (const std::string op : {"add", "sub", "mul", "min", "max"})
    for (const DType dtype : {DType::I32, DType::U32}) {
      // From 500 on, so that no difference of two u32 goes below zero: the first operand is the larger one.
      OpCase c{op + "_" + to_string(dtype), op, {}, Fill::Whole, 1, 1000};
      c.exact = true;
      const DType type = dtype;
      const bool unsigned_sub = op == "sub" && dtype == DType::U32;
      cases.push_back(make_case(c, [op, type, unsigned_sub](CaseBuilder& b) {
        const ValueId x = b.input({3, 41}, type), y = b.input({41}, type);
        b.output(b.add(op, {unsigned_sub ? b.add("max", {x, y}) : x, y}));
      }));
    }
}

// Results of rows over truth values and integers are compared exactly.
OpCase exact_case(const std::string& name, const std::string& op, double lo, double hi) {
  OpCase c{name, op, {}, Fill::Whole, lo, hi};
  c.exact = true;
  return c;
}

// An input of any element type; truth values and wide integers come from narrower ports.
ValueId typed_input(CaseBuilder& b, const Shape& shape, DType dtype) {
  if (dtype == DType::Bool) return b.add("cast", {b.input(shape, DType::U8)}, {{"to", "bool"}});
  if (dtype == DType::I64) return b.add("cast", {b.input(shape, DType::I32)}, {{"to", "i64"}});
  return b.input(shape, dtype);
}

void add_logic(std::vector<OpCase>& cases) {
  for (const std::string op : {"equal", "less", "less_equal", "greater", "greater_equal"})
    for (const DType dtype : {DType::F32, DType::I32, DType::U32, DType::U8, DType::I64, DType::Bool, DType::F16}) {
      if (dtype != DType::F32 && op != "equal" && op != "less") continue;
      cases.push_back(make_case(exact_case(op + "_" + to_string(dtype), op, 0, 3), [op, dtype](CaseBuilder& b) {
        b.output(b.add(op, {typed_input(b, {3, 41}, dtype), typed_input(b, {41}, dtype)}));
      }));
    }
  for (const std::string op : {"logical_and", "logical_or", "logical_xor"})
    cases.push_back(make_case(exact_case(op + "_bool", op, 0, 1), [op](CaseBuilder& b) {
      b.output(b.add(op, {typed_input(b, {3, 41}, DType::Bool), typed_input(b, {41}, DType::Bool)}));
    }));
  cases.push_back(make_case(exact_case("logical_not_bool", "logical_not", 0, 1), [](CaseBuilder& b) {
    b.output(b.add("logical_not", {typed_input(b, {3, 41}, DType::Bool)}));
  }));
  for (const std::string op : {"bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "idiv"})
    for (const DType dtype : {DType::I32, DType::U32}) {
      cases.push_back(make_case(exact_case(op + "_" + to_string(dtype), op, 1, 20), [op, dtype](CaseBuilder& b) {
        b.output(b.add(op, {b.input({3, 41}, dtype), b.input({41}, dtype)}));
      }));
    }
  OpCase bits{"to_bits_some", "to_bits", {}, Fill::Uniform, -400, 400};
  bits.exact = true;
  add_unary(cases, bits, {3, 67});
  for (const DType dtype : {DType::I32, DType::U32})
    add_unary(cases, exact_case(std::string("from_bits_") + to_string(dtype), "from_bits", 0x3f800000, 0x40800000),
              {3, 67}, {}, dtype);
  // Products that pass 32 bits keep the lower ones.
  for (const DType dtype : {DType::I32, DType::U32})
    cases.push_back(
        make_case(exact_case(std::string("mul_wraps_") + to_string(dtype), "mul", 1, 1000), [=](CaseBuilder& b) {
          Tensor factor(dtype, {}), low(dtype, {});
          set(factor, 0, 2000000011);
          set(low, 0, 65535);
          const ValueId y = b.add("mul", {b.input({3, 67}, dtype), b.graph.add_constant("factor", factor)});
          b.output(b.add("bit_and", {y, b.graph.add_constant("low", low)}));
        }));
  cases.push_back(make_case(exact_case("mod_u32_large", "mod", 1, 20), [](CaseBuilder& b) {
    Tensor top(DType::U32, {});
    set(top, 0, 4294967291.0);
    b.output(b.add("mod", {b.input({41}, DType::U32), b.graph.add_constant("top", top)}));
  }));
  for (const std::string op : {"mod", "fmod"}) {
    cases.push_back(make_case(exact_case(op + "_u32", op, 1, 20), [op](CaseBuilder& b) {
      b.output(b.add(op, {b.input({3, 41}, DType::U32), b.input({41}, DType::U32)}));
    }));
    for (const DType dtype : {DType::F32, DType::I32})
      cases.push_back(make_case(exact_case(op + "_" + to_string(dtype), op, -20, 20), [op, dtype](CaseBuilder& b) {
        const auto number = [&](const char* name, double value) {
          Tensor t(dtype, {});
          set(t, 0, value);
          return b.graph.add_constant(name, t);
        };
        const ValueId y = b.add("mul", {b.input({41}, dtype), number("two", 2)});
        b.output(b.add(op, {b.input({3, 41}, dtype), b.add("add", {y, number("one", 1)})}));  // odd, and so not 0
      }));
  }
  add_binary(cases, {"atan2_around", "atan2", {}}, {3, 401}, {401});
  cases.push_back(make_case({"atan2_axes", "atan2", {}, Fill::Whole, -1, 1}, [](CaseBuilder& b) {
    b.output(b.add("atan2", {b.input({97}), b.input({97})}));
  }));
  add_binary(cases, {"prelu_channel", "prelu", {}}, {2, 5, 3, 4, 7}, {1, 5, 1, 1, 1}, true);
  add_binary(cases, {"prelu_same", "prelu", {}}, {3, 41}, {3, 41});
}

// Infinities and NaN come from a constant beside the input: kernels cannot be trusted to make them.
void add_not_finite(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, const std::string& op, Attrs attrs) {
    cases.push_back(make_case(exact_case(name, op, -2, 2), [op, attrs](CaseBuilder& b) {
      Tensor odd(DType::F32, {35});
      const double values[] = {HUGE_VAL, -HUGE_VAL, std::nan(""), 0, 1e30};
      for (int64_t i = 0; i < odd.size(); ++i) set(odd, i, values[i % 5]);
      const ValueId all = b.add("concat", {b.input({32}), b.graph.add_constant("odd", odd)}, {{"axis", int64_t{0}}});
      b.output(b.add(op, {all}, attrs));
    }));
  };
  add("isnan_some", "isnan", {});
  add("isinf_both", "isinf", {});
  add("isinf_negative", "isinf", {{"positive", int64_t{0}}});
  add("isinf_positive", "isinf", {{"negative", int64_t{0}}});
}

void add_where(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, DType dtype, Shape condition, Shape a, Shape b_shape) {
    cases.push_back(make_case(exact_case(name, "where", -3, 3), [=](CaseBuilder& b) {
      b.output(b.add(
          "where", {typed_input(b, condition, DType::Bool), typed_input(b, a, dtype), typed_input(b, b_shape, dtype)}));
    }));
  };
  add("where_f32", DType::F32, {3, 41}, {3, 41}, {3, 41});
  add("where_f16", DType::F16, {3, 41}, {3, 41}, {41});
  add("where_i64", DType::I64, {41}, {3, 41}, {});
  add("where_u8", DType::U8, {3, 1}, {}, {41});
  add("where_bool", DType::Bool, {}, {3, 41}, {3, 1});
  // The condition is computed, and the result goes on through floats.
  cases.push_back(make_case({"where_chain", "where", {}}, [](CaseBuilder& b) {
    const ValueId x = b.input({1, 5, 4, 3, 7}), y = b.input({1, 5, 4, 3, 7});
    b.output(b.add("exp", {b.add("where", {b.add("less", {x, y}), x, y})}));
  }));
}

void add_pow(std::vector<OpCase>& cases) {
  add_binary(cases, {"pow_positive_base", "pow", {}, Fill::Uniform, 0.1, 4}, {5, 61}, {5, 61});
  add_binary(cases, {"pow_constant_exponent", "pow", {}, Fill::Uniform, 0.1, 4}, {1, 5, 4, 3, 5}, {}, true);
  // Whole numbers cover negative bases, 0^0, 0^y and odd and even exponents.
  cases.push_back(make_case({"pow_whole", "pow", {}, Fill::Whole, -4, 4}, [](CaseBuilder& b) {
    const ValueId base = b.input({200});
    b.output(b.add("pow", {base, b.add("abs", {b.input({200})})}));
  }));
  for (const float exponent : {2.0f, 3.0f, -1.0f}) {
    const std::string name = exponent == 2 ? "square" : exponent == 3 ? "cube" : "inverse";
    cases.push_back(make_case({"pow_" + name, "pow", {}, Fill::Uniform, -3, -0.5}, [exponent](CaseBuilder& b) {
      b.output(b.add("pow", {b.input({301}), b.graph.add_constant("exponent", Tensor::from_floats({}, {exponent}))}));
    }));
  }
}

void add_fused(std::vector<OpCase>& cases) {
  const auto add = [&](OpCase base, std::vector<Shape> operands, std::vector<Node> body) {
    base.op = "fused";
    cases.push_back(make_case(base, [operands, body](CaseBuilder& b) {
      Node node;
      node.op = "fused";
      for (const Shape& shape : operands) node.inputs.push_back(b.input(shape));
      node.body = body;
      b.output(b.add_node(node).front());
    }));
  };
  add({"fused_one_step", "", {}}, {{1, 5, 4, 5, 6}}, {step("gelu", {0})});
  add({"fused_add_relu", "", {}}, {{1, 5, 4, 5, 6}, {1, 5, 4, 5, 6}}, {step("add", {0, 1}), step("relu", {2})});
  add({"fused_broadcast", "", {}}, {{2, 5, 4, 5, 6}, {5, 1, 1, 1}, {}},
      {step("mul", {0, 1}), step("add", {3, 2}), step("tanh", {4}), step("mul", {5, 0})});
  add({"fused_result_broadcast", "", {}}, {{4, 1}, {1, 9}}, {step("exp", {0}), step("mul", {2, 1})});
  add({"fused_repeats_operand", "", {}}, {{3, 67}}, {step("square", {0}), step("mul", {1, 0}), step("sub", {2, 0})});
  OpCase casts{"fused_casts", "", {}, Fill::Uniform, -10, 300};
  casts.exact = true;
  add(casts, {{3, 67}}, {step("cast", {0}, {{"to", "u8"}}), step("cast", {1}, {{"to", "i32"}}), step("neg", {2})});
  add({"fused_alpha", "", {}}, {{1, 3, 4, 5, 6}, {1, 3, 1, 1, 1}},
      {step("add", {0, 1}), step("leaky_relu", {2}, {{"alpha", 0.2}}), step("elu", {3}, {{"alpha", 0.5}})});
}

}  // namespace

void add_elementwise_cases(std::vector<OpCase>& cases) {
  add_activations(cases);
  add_functions(cases);
  add_affine_and_cast(cases);
  add_binaries(cases);
  add_pow(cases);
  add_fused(cases);
  add_more_activations(cases);
  add_more_functions(cases);
  add_logic(cases);
  add_not_finite(cases);
  add_where(cases);
}

}  // namespace gyrus::test
