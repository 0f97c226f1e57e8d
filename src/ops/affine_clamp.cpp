#include "ops/affine_clamp.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"scale", "shift", "lo", "hi"});
  const AffineClamp a = affine_clamp_attrs(node.attrs);
  if (!std::isfinite(a.scale) || !std::isfinite(a.shift) || !(a.lo <= a.hi))
    fail(ErrorCode::InvalidGraph, node.op, "scale ", a.scale, ", shift ", a.shift, ", lo ", a.lo, ", hi ", a.hi,
         ": expected finite numbers with lo <= hi");
  return {{DType::F32, inputs[0].shape, Layout::Plain}};
}

double eval(const Attrs& attrs, const double* x) {
  const AffineClamp a = affine_clamp_attrs(attrs);
  return std::clamp(*x * a.scale + a.shift, a.lo, a.hi);
}

std::string wgsl(const Attrs& attrs, const std::vector<std::string>& args, const std::string& type) {
  const AffineClamp a = affine_clamp_attrs(attrs);
  const std::string t = with_scalar(type, "f32");
  const std::string x = t == type ? args[0] : t + "(" + args[0] + ")";
  return "clamp(" + x + " * " + wgsl_number(a.scale) + " + " + wgsl_number(a.shift) + ", " + t + "(" +
         wgsl_number(a.lo) + "), " + t + "(" + wgsl_number(a.hi) + "))";
}

}  // namespace

AffineClamp affine_clamp_attrs(const Attrs& attrs) {
  AffineClamp a;
  a.scale = attrs.number("scale", a.scale);
  a.shift = attrs.number("shift", a.shift);
  a.lo = attrs.number("lo", a.lo);
  a.hi = attrs.number("hi", a.hi);
  return a;
}

const OpDef kAffineClamp = {
    .name = "affine_clamp",
    .family = KernelFamily::Elementwise,
    .infer = infer,
    .reference = elementwise_reference,
    .eval = eval,
    .wgsl = wgsl,
    .flops = element_flops,
};

}  // namespace gyrus
