#include "ops/in_training.h"

#include "ops/common.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node(node, inputs, 2, 2, {});
  if (inputs[0].shape != inputs[1].shape || inputs[0].dtype != inputs[1].dtype)
    fail(ErrorCode::InvalidGraph, node.op, "chooses between ", to_string(inputs[0].dtype), to_string(inputs[0].shape),
         " and ", to_string(inputs[1].dtype), to_string(inputs[1].shape), ": expected the same");
  return {{inputs[1].dtype, inputs[1].shape, Layout::Plain}};
}

void reference(const Node&, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  outputs[0].data = inputs[1]->data;
}

}  // namespace

const OpDef kInTraining = {
    .name = "in_training",
    .infer = infer,
    .reference = reference,
    .only_trains = true,
    .decompose = [](Graph&, const Node& node) { return std::vector<ValueId>{node.inputs[1]}; },
    .flops = no_flops,
};

}  // namespace gyrus
