#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/fused.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// Any elementwise node as one with a body.
Node as_fused(const Node& node) {
  if (node.op == "fused") return node;
  Node fused = node;
  fused.op = "fused";
  fused.attrs = {};
  fused.body = body_of(node);
  return fused;
}

std::string kernel_name(const Node& fused) {
  std::string name = "map";
  for (const Node& step : fused.body) name += " " + step.op;
  return name;
}

void lower_packed(Lowering& lowering, const Node& node, const Node& fused) {
  const Graph& graph = lowering.graph();
  const TensorType& type = graph.type(node.outputs[0]);
  PackedMapSpec spec;
  spec.name = kernel_name(fused) + " packed";
  spec.label = label_of(node);
  spec.images = type.shape[0];
  spec.channels = type.shape[1];
  std::vector<std::string> names;
  StoragePtr reuse;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId id = node.inputs[k];
    PackedOperand operand;
    operand.storage = lowering.storage(id);
    operand.name = cat("x", k);
    const Shape& shape = graph.type(id).shape;
    if (shape == type.shape)
      operand.access = PackedOperand::Access::Same;
    else if (element_count(shape) == 1)
      operand.access = PackedOperand::Access::Scalar;
    else
      operand.access = PackedOperand::Access::Channel;
    const bool same = operand.access == PackedOperand::Access::Same && operand.storage->dtype == type.dtype;
    if (same && !reuse && lowering.may_overwrite(id)) reuse = operand.storage;
    names.push_back(operand.name);
    spec.operands.push_back(std::move(operand));
  }
  const BodyText body = body_wgsl(fused, names, wgsl::vec4f);
  spec.statements = body.statements;
  spec.result = body.result();
  // A scalar operand is not zero in the lanes beyond the last channel.
  const bool scalar = std::any_of(spec.operands.begin(), spec.operands.end(), [](const PackedOperand& operand) {
    return operand.access == PackedOperand::Access::Scalar;
  });
  spec.keeps_zero = body_keeps_zero(fused) && !scalar;
  spec.flops_per_element = static_cast<double>(fused.body.size());
  if (reuse) lowering.set_storage(node.outputs[0], reuse);
  spec.out = reuse ? reuse : lowering.make_storage(node.outputs[0], node);
  emit_packed_map(lowering, spec);
}

// The state among the operands that the node updates, where it is read at the result's own elements alone.
StoragePtr updated_state(Lowering& lowering, const Node& node, const MapSpec& spec) {
  StoragePtr state;
  for (ValueId id : node.inputs)
    if (lowering.may_update(id) && lowering.graph().type(id).dtype == lowering.graph().type(node.outputs[0]).dtype)
      state = lowering.storage(id);
  for (const MapOperand& operand : spec.operands)
    if (operand.storage == state && !(operand.index.empty() && operand.valid.empty())) return nullptr;
  return state;
}

void lower_plain(Lowering& lowering, const Node& node, const Node& fused) {
  const Graph& graph = lowering.graph();
  const TensorType& type = graph.type(node.outputs[0]);
  MapSpec spec;
  spec.name = kernel_name(fused);
  spec.label = label_of(node);
  spec.dims = type.shape;
  std::vector<std::string> names;
  std::vector<WgslType> types;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const Shape& shape = graph.type(node.inputs[k]).shape;
    const StoragePtr storage = lowering.storage(node.inputs[k]);
    names.push_back(cat("x", k));
    types.push_back({scalar_of(storage->dtype), 1});
    if (shape == type.shape) {
      MapOperand operand;
      operand.storage = storage;
      operand.name = names.back();
      spec.operands.push_back(std::move(operand));
    } else {
      IndexMap map;
      map.strides = broadcast_strides(shape, type.shape);
      add_mapped(spec, storage, names.back(), map);
    }
  }
  const BodyText body = body_wgsl(fused, names, types);
  spec.statements = body.statements;
  spec.result = body.result();
  spec.flops_per_element = static_cast<double>(fused.body.size());
  const StoragePtr updated = updated_state(lowering, node, spec);
  if (updated) lowering.set_storage(node.outputs[0], updated);
  spec.out = updated ? updated : lowering.make_storage(node.outputs[0], node);
  emit_map(lowering, spec);
}

}  // namespace

void lower_elementwise(Lowering& lowering, const Node& node) {
  const Node fused = as_fused(node);
  if (lowering.graph().type(node.outputs[0]).layout == Layout::Packed)
    lower_packed(lowering, node, fused);
  else
    lower_plain(lowering, node, fused);
}

}  // namespace gyrus
