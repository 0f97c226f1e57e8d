#include "ops/activation.h"

#include <cmath>

#include "ops/elementwise.h"

namespace gyrus {
namespace {

double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

// The normal distribution function; erfc keeps the digits of the left tail.
double normal_cdf(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }

double tanh_gelu(double x) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  return x * sigmoid(2 * kSqrt2OverPi * (x + 0.044715 * x * x * x));
}

bool gelu_uses_tanh(const Attrs& attrs) { return attrs.text("approximate", "none") == "tanh"; }

std::vector<TensorType> same_type(const Node& node, const std::vector<TensorType>& inputs) {
  expect_float(node, inputs[0], "input");
  return {{inputs[0].dtype, inputs[0].shape, Layout::Plain}};
}

std::vector<TensorType> infer_plain(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {});
  return same_type(node, inputs);
}

std::vector<TensorType> infer_alpha(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"alpha"});
  const double alpha = node.attrs.number("alpha", 1);
  if (!std::isfinite(alpha)) fail(ErrorCode::InvalidGraph, node.op, "alpha is ", alpha, ", expected a finite number");
  return same_type(node, inputs);
}

std::vector<TensorType> infer_gelu(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"approximate"});
  const std::string approximate = node.attrs.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    fail(ErrorCode::InvalidGraph, node.op, "approximate is '", approximate, "', expected 'none' or 'tanh'");
  return same_type(node, inputs);
}

// A call of a function of one argument in elementwise.wgsl.
template <const char* function>
std::string call(const Attrs&, const std::vector<std::string>& args, const std::string&) {
  return std::string(function) + "(" + args[0] + ")";
}

// The same with alpha as the second argument.
template <const char* function, int default_percent>
std::string call_alpha(const Attrs& attrs, const std::vector<std::string>& args, const std::string&) {
  return std::string(function) + "(" + args[0] + ", " + wgsl_number(attrs.number("alpha", default_percent / 100.0)) +
         ")";
}

constexpr char kActRelu[] = "act_relu";
constexpr char kActLeakyRelu[] = "act_leaky_relu";
constexpr char kActElu[] = "act_elu";
constexpr char kActSilu[] = "act_silu";
constexpr char kActSigmoid[] = "act_sigmoid";
constexpr char kActTanh[] = "act_tanh";
constexpr char kActSoftplus[] = "act_softplus";

std::string gelu_wgsl(const Attrs& attrs, const std::vector<std::string>& args, const std::string&) {
  return std::string(gelu_uses_tanh(attrs) ? "act_gelu_tanh(" : "act_gelu(") + args[0] + ")";
}

}  // namespace

const OpDef kRelu = {
    .name = "relu",
    .family = KernelFamily::Elementwise,
    .infer = infer_plain,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return *x < 0 ? 0 : *x; },
    .wgsl = call<kActRelu>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kLeakyRelu = {
    .name = "leaky_relu",
    .family = KernelFamily::Elementwise,
    .infer = infer_alpha,
    .reference = elementwise_reference,
    .eval = [](const Attrs& attrs, const double* x) { return *x < 0 ? attrs.number("alpha", 0.01) * *x : *x; },
    .wgsl = call_alpha<kActLeakyRelu, 1>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kElu = {
    .name = "elu",
    .family = KernelFamily::Elementwise,
    .infer = infer_alpha,
    .reference = elementwise_reference,
    .eval = [](const Attrs& attrs, const double* x) { return *x < 0 ? attrs.number("alpha", 1) * std::expm1(*x) : *x; },
    .wgsl = call_alpha<kActElu, 100>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kGelu = {
    .name = "gelu",
    .family = KernelFamily::Elementwise,
    .infer = infer_gelu,
    .reference = elementwise_reference,
    .eval = [](const Attrs& attrs,
               const double* x) { return gelu_uses_tanh(attrs) ? tanh_gelu(*x) : *x * normal_cdf(*x); },
    .wgsl = gelu_wgsl,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kSilu = {
    .name = "silu",
    .family = KernelFamily::Elementwise,
    .infer = infer_plain,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return *x * sigmoid(*x); },
    .wgsl = call<kActSilu>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kSigmoid = {
    .name = "sigmoid",
    .family = KernelFamily::Elementwise,
    .infer = infer_plain,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return sigmoid(*x); },
    .wgsl = call<kActSigmoid>,
    .flops = element_flops,
};

const OpDef kTanh = {
    .name = "tanh",
    .family = KernelFamily::Elementwise,
    .infer = infer_plain,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::tanh(*x); },
    .wgsl = call<kActTanh>,
    .keeps_zero = true,
    .flops = element_flops,
};

const OpDef kSoftplus = {
    .name = "softplus",
    .family = KernelFamily::Elementwise,
    .infer = infer_plain,
    .reference = elementwise_reference,
    .eval = [](const Attrs&, const double* x) { return std::max(*x, 0.0) + std::log1p(std::exp(-std::abs(*x))); },
    .wgsl = call<kActSoftplus>,
    .flops = element_flops,
};

}  // namespace gyrus
