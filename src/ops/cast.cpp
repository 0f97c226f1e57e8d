#include "ops/cast.h"

#include "ops/elementwise.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"to"});
  return {{dtype_from_string(node.attrs.text("to")), inputs[0].shape, Layout::Plain}};
}

double eval(const Attrs& attrs, const double* x) { return round_to(dtype_from_string(attrs.text("to")), *x); }

// Floats to integers. The bounds of the integer type are no f32 each: clamp to the last f32 inside, then set the
// upper bound where x passed it. NaN is found by its bits, since compilers may assume that there is none.
std::string float_to_integer(const std::string& x, const std::string& type, const std::string& scalar, DType to) {
  const std::string integer = with_scalar(type, scalar);
  const std::string bits = "bitcast<" + with_scalar(type, "u32") + ">(" + x + ")";
  const auto splat = [&](const std::string& number) { return type + "(" + number + ")"; };
  const std::string mask = with_scalar(type, "u32") + "(0x7fffffffu)";
  const std::string nan = "((" + bits + " & " + mask + ") > " + with_scalar(type, "u32") + "(0x7f800000u))";
  const std::string lo = to == DType::I32 ? "-2147483648.0" : "0.0";
  const std::string hi = to == DType::I32 ? "2147483520.0" : to == DType::U32 ? "4294967040.0" : "255.0";
  std::string result = integer + "(clamp(" + x + ", " + splat(lo) + ", " + splat(hi) + "))";
  if (to == DType::I32)
    result = "select(" + result + ", " + integer + "(2147483647), " + x + " >= " + splat("2147483648.0") + ")";
  if (to == DType::U32)
    result = "select(" + result + ", " + integer + "(4294967295u), " + x + " >= " + splat("4294967296.0") + ")";
  return "select(" + result + ", " + integer + "(0), " + nan + ")";
}

std::string wgsl(const Attrs& attrs, const std::vector<std::string>& args, const std::string& type) {
  const DType to = dtype_from_string(attrs.text("to"));
  const std::string from = scalar_of(type);
  const std::string& x = args[0];
  const std::string scalar = is_float(to) ? "f32" : to == DType::I32 ? "i32" : "u32";
  const std::string target = with_scalar(type, scalar);
  if (is_float(to)) {
    const std::string single = from == "f32" ? x : target + "(" + x + ")";
    return to == DType::F16 ? "quantizeToF16(" + single + ")" : single;
  }
  if (from == "f32") return float_to_integer(x, type, scalar, to);
  if (from == "u32" && to == DType::I32) return target + "(min(" + x + ", " + type + "(2147483647u)))";
  if (from == "i32" && to == DType::U32) return target + "(max(" + x + ", " + type + "(0)))";
  if (from == "i32" && to == DType::U8) return target + "(clamp(" + x + ", " + type + "(0), " + type + "(255)))";
  if (from == "u32" && to == DType::U8) return "min(" + x + ", " + type + "(255u))";
  return x;
}

}  // namespace

double round_to(DType dtype, double x) {
  Tensor one(dtype, {});
  set(one, 0, x);
  return get(one, 0);
}

const OpDef kCast = {
    .name = "cast",
    .family = KernelFamily::Elementwise,
    .infer = infer,
    .reference = elementwise_reference,
    .eval = eval,
    .wgsl = wgsl,
    .keeps_zero = true,
    .flops = no_flops,
};

}  // namespace gyrus
