#include "ops/unary.h"

#include <cmath>

#include "ops/elementwise.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer_float(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {});
  expect_float(node, inputs[0], "input");
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}};
}

std::vector<TensorType> infer_float_or_i32(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {});
  if (inputs[0].dtype != DType::I32) expect_float(node, inputs[0], "input");
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}};
}

// Builtins of WGSL of the same name.
template <const char* function>
std::string builtin(const Attrs&, const std::vector<std::string>& args, const std::string&) {
  return std::string(function) + "(" + args[0] + ")";
}

constexpr char kExpName[] = "exp";
constexpr char kLogName[] = "log";
constexpr char kSqrtName[] = "sqrt";
constexpr char kRsqrtName[] = "inverseSqrt";
constexpr char kAbsName[] = "abs";

std::string neg_wgsl(const Attrs&, const std::vector<std::string>& args, const std::string&) {
  return "(-" + args[0] + ")";
}
std::string square_wgsl(const Attrs&, const std::vector<std::string>& args, const std::string&) {
  return "(" + args[0] + " * " + args[0] + ")";
}

}  // namespace

const OpDef kExp = {
    .name = "exp",
    .family = KernelFamily::Elementwise,
    .infer = infer_float,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::exp(*x); },
    .wgsl = builtin<kExpName>,
    .flops = element_flops,
};

const OpDef kLog = {
    .name = "log",
    .family = KernelFamily::Elementwise,
    .infer = infer_float,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::log(*x); },
    .wgsl = builtin<kLogName>,
    .flops = element_flops,
};

const OpDef kSqrt = {
    .name = "sqrt",
    .family = KernelFamily::Elementwise,
    .infer = infer_float,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::sqrt(*x); },
    .wgsl = builtin<kSqrtName>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kRsqrt = {
    .name = "rsqrt",
    .family = KernelFamily::Elementwise,
    .infer = infer_float,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return 1 / std::sqrt(*x); },
    .wgsl = builtin<kRsqrtName>,
    .flops = element_flops,
};

const OpDef kNeg = {
    .name = "neg",
    .family = KernelFamily::Elementwise,
    .infer = infer_float_or_i32,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return -*x; },
    .wgsl = neg_wgsl,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kAbs = {
    .name = "abs",
    .family = KernelFamily::Elementwise,
    .infer = infer_float_or_i32,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::abs(*x); },
    .wgsl = builtin<kAbsName>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kSquare = {
    .name = "square",
    .family = KernelFamily::Elementwise,
    .infer = infer_float_or_i32,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return *x * *x; },
    .wgsl = square_wgsl,
    .keeps_zero = true,
    .flops = element_flops,
};

}  // namespace gyrus
