#include "ops/repack.h"

#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 1, 1, {"to"});
  const std::string& to = node.attrs.text("to");
  if (to != "packed" && to != "plain")
    fail(ErrorCode::InvalidGraph, node.op, "to is '", to, "', expected 'packed' or 'plain'");
  TensorType type = inputs[0];
  type.layout = to == "packed" ? Layout::Packed : Layout::Plain;
  if (type.layout == Layout::Packed && (type.shape.size() < 3 || !is_float(type.dtype)))
    fail(ErrorCode::InvalidGraph, node.op, "input is ", to_string(type.dtype), to_string(type.shape),
         ", expected floats [N,C,sp…]");
  return {type};
}

void reference(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  outputs[0].data = inputs[0]->data;
}

}  // namespace

const OpDef kRepack = {
    .name = "repack",
    .infer = infer,
    .reference = reference,
    .layout = LayoutRule::Repacks,
    .flops = no_flops,
};

}  // namespace gyrus
