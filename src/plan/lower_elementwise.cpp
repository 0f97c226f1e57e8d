#include <algorithm>

#include "core/error.h"
#include "graph/op.h"
#include "ops/common.h"
#include "ops/fused.h"
#include "plan/lowering.h"

namespace gyrus {
namespace {

// Any elementwise node as one with a body.
Node as_fused(const Node& node) {
  if (op(node.op).body_only) return node;
  Node fused = node;
  fused.op = kFused.name;
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
  std::vector<WgslType> types;
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
    operand.per_image = operand.access == PackedOperand::Access::Channel && shape[0] > 1;
    const bool same = operand.access == PackedOperand::Access::Same && operand.storage->dtype == type.dtype;
    if (same && !reuse && lowering.may_overwrite(id)) reuse = operand.storage;
    names.push_back(operand.name);
    types.push_back({is_float(operand.storage->dtype) ? Scalar::F32 : scalar_of(operand.storage->dtype), 4});
    spec.operands.push_back(std::move(operand));
  }
  const BodyText body = body_wgsl(fused, names, types, "place");
  spec.indexed = is_indexed(fused);
  spec.statements = body.statements;
  // A scalar operand is not zero in the lanes beyond the last channel.
  const bool scalar = std::any_of(spec.operands.begin(), spec.operands.end(), [](const PackedOperand& operand) {
    return operand.access == PackedOperand::Access::Scalar;
  });
  spec.keeps_zero = body_keeps_zero(fused) && !scalar;
  spec.flops_per_element = static_cast<double>(fused.body.size());
  // Each result is a map of its own; an operand's memory is taken over by the last.
  for (size_t r = 0; r < node.outputs.size(); ++r) {
    const bool last = r + 1 == node.outputs.size() && graph.type(node.outputs[r]).dtype == type.dtype;
    spec.result = body.results[r];
    if (reuse && last) lowering.set_storage(node.outputs[r], reuse);
    spec.out = reuse && last ? reuse : lowering.make_storage(node.outputs[r], node);
    emit_packed_map(lowering, spec);
  }
}

// The state among the operands that the node updates, where it is read at the result's own elements alone.
StoragePtr updated_state(Lowering& lowering, const Node& node, const MapSpec& spec) {
  StoragePtr state;
  for (ValueId id : node.inputs)
    if (id != kNoValue && lowering.may_update(id) &&
        lowering.graph().type(id).dtype == lowering.graph().type(node.outputs[0]).dtype)
      state = lowering.storage(id);
  for (const MapOperand& operand : spec.operands)
    if (operand.storage == state && !(operand.index.empty() && operand.valid.empty())) return nullptr;
  return state;
}

// All results by one kernel, each over the state that becomes it where there is one; false where that cannot be.
bool emit_together(Lowering& lowering, const Node& node, const MapSpec& spec, const std::vector<std::string>& results) {
  const Graph& graph = lowering.graph();
  std::vector<StoragePtr> outs;
  std::vector<bool> made;
  for (ValueId id : node.outputs) {
    StoragePtr over;
    for (ValueId from : node.inputs)
      if (from != kNoValue && lowering.may_become(from, id)) over = lowering.storage(from);
    made.push_back(over == nullptr);
    // What is not there yet is laid out alike when it is made.
    outs.push_back(over ? over
                        : std::make_shared<Storage>(laid_out(graph.type(id), lowering.limits(), label_of(node))));
  }
  if (!suits_results(lowering, spec, outs)) return false;
  for (size_t r = 0; r < outs.size(); ++r) {
    if (made[r])
      outs[r] = lowering.make_storage(node.outputs[r], node);
    else
      lowering.set_storage(node.outputs[r], outs[r]);
  }
  emit_results(lowering, spec, outs, results);
  return true;
}

// An operand of a body: where it lies, and its shape.
struct BodyOperand {
  StoragePtr storage;
  const Shape& shape;
};

// The results of a node by its body over these operands, each a map of its own.
void emit_plain(Lowering& lowering, const Node& node, const Node& body_node, const std::vector<BodyOperand>& operands) {
  const Shape& shape = lowering.graph().type(node.outputs[0]).shape;
  MapSpec spec;
  spec.name = kernel_name(body_node);
  spec.label = label_of(node);
  spec.dims = shape;
  std::vector<std::string> names;
  std::vector<WgslType> types;
  for (const BodyOperand& given : operands) {
    names.push_back(cat("x", names.size()));
    types.push_back({scalar_of(given.storage->dtype), 1});
    if (given.shape == shape) {
      MapOperand operand;
      operand.storage = given.storage;
      operand.name = names.back();
      spec.operands.push_back(std::move(operand));
    } else {
      IndexMap map;
      map.strides = broadcast_strides(given.shape, shape);
      add_mapped(spec, given.storage, names.back(), map);
    }
  }
  const BodyText body = body_wgsl(body_node, names, types, "o");
  spec.statements = body.statements;
  spec.flops_per_element = static_cast<double>(body_node.body.size());
  if (node.outputs.size() > 1 && emit_together(lowering, node, spec, body.results)) return;
  for (size_t r = 0; r < node.outputs.size(); ++r) {
    // The last may be written over the state that it updates.
    const StoragePtr updated = r + 1 == node.outputs.size() ? updated_state(lowering, node, spec) : nullptr;
    if (updated) lowering.set_storage(node.outputs[r], updated);
    spec.result = body.results[r];
    spec.out = updated ? updated : lowering.make_storage(node.outputs[r], node);
    emit_map(lowering, spec);
  }
}

void lower_plain(Lowering& lowering, const Node& node, const Node& fused) {
  std::vector<BodyOperand> operands;
  for (ValueId id : node.inputs) operands.push_back({lowering.storage(id), lowering.graph().type(id).shape});
  emit_plain(lowering, node, fused, operands);
}

}  // namespace

void emit_body(Lowering& lowering, const Node& node, StoragePtr raw, const TensorType& type) {
  std::vector<BodyOperand> operands = {{std::move(raw), type.shape}};
  for (size_t i = own_inputs(node); i < node.inputs.size(); ++i)
    operands.push_back({lowering.storage(node.inputs[i]), lowering.graph().type(node.inputs[i]).shape});
  emit_plain(lowering, node, node, operands);
}

bool suits_elementwise(const Graph& graph, const Node& node, const Target& target, const PlanOptions& options) {
  if (node.body.size() < 2) return true;
  const Limits& limits = target.limits;
  const size_t bindings = node.inputs.size() + 1 + (options.check_finite ? 1 : 0);
  // Every window of a broadcast operand is bound with every window of the others.
  const uint64_t most = std::min(limits.max_storage_buffer_binding_size, limits.max_buffer_size);
  const auto is_cut = [&](ValueId id) {
    const TensorType& type = graph.type(id);
    return type.shape != graph.type(node.outputs[0]).shape &&
           static_cast<uint64_t>(element_count(type.shape)) * byte_size(type.dtype) + 512 > most;
  };
  return bindings <= limits.max_storage_buffers_per_shader_stage &&
         std::count_if(node.inputs.begin(), node.inputs.end(), is_cut) < 2;
}

void lower_elementwise(Lowering& lowering, const Node& node) {
  const Node fused = as_fused(node);
  if (lowering.graph().type(node.outputs[0]).layout == Layout::Packed)
    lower_packed(lowering, node, fused);
  else
    lower_plain(lowering, node, fused);
}

}  // namespace gyrus
