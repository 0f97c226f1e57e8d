#include "ops/binary.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {});
  const DType dtype = common_dtype(node, inputs);
  if (dtype == DType::U8)
    fail(ErrorCode::Unsupported, node.op, "inputs are u8, which has no arithmetic; cast them to f32, i32 or u32 first");
  return {{dtype, broadcast(node, inputs[0].shape, inputs[1].shape), Layout::Plain}};
}

std::vector<TensorType> infer_float(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {});
  expect_float(node, inputs[0], "first input");
  expect_float(node, inputs[1], "second input");
  return infer(node, inputs);
}

template <char sign>
std::string infix(const Attrs&, const std::vector<std::string>& args, const std::string&) {
  return "(" + args[0] + " " + sign + " " + args[1] + ")";
}

template <const char* function>
std::string call(const Attrs&, const std::vector<std::string>& args, const std::string&) {
  return std::string(function) + "(" + args[0] + ", " + args[1] + ")";
}

constexpr char kMinName[] = "min";
constexpr char kMaxName[] = "max";
constexpr char kPowName[] = "act_pow";

}  // namespace

const OpDef kAdd = {
    .name = "add",
    .family = KernelFamily::Elementwise,
    .infer = infer,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return x[0] + x[1]; },
    .wgsl = infix<'+'>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kSub = {
    .name = "sub",
    .family = KernelFamily::Elementwise,
    .infer = infer,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return x[0] - x[1]; },
    .wgsl = infix<'-'>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kMul = {
    .name = "mul",
    .family = KernelFamily::Elementwise,
    .infer = infer,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return x[0] * x[1]; },
    .wgsl = infix<'*'>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kDiv = {
    .name = "div",
    .family = KernelFamily::Elementwise,
    .infer = infer_float,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return x[0] / x[1]; },
    .wgsl = infix<'/'>,
    .flops = element_flops,
};

const OpDef kMin = {
    .name = "min",
    .family = KernelFamily::Elementwise,
    .infer = infer,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::min(x[0], x[1]); },
    .wgsl = call<kMinName>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kMax = {
    .name = "max",
    .family = KernelFamily::Elementwise,
    .infer = infer,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::max(x[0], x[1]); },
    .wgsl = call<kMaxName>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kPow = {
    .name = "pow",
    .family = KernelFamily::Elementwise,
    .infer = infer_float,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::pow(x[0], x[1]); },
    .wgsl = call<kPowName>,
    .flops = element_flops,
};

}  // namespace gyrus
