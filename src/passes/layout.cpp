#include <algorithm>

#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/fused.h"
#include "passes/passes.h"

// Which values lie packed (channels in quads) is decided in one walk: convolutions and norms make and take packed
// maps, elementwise ops follow their operands, everything else is plain. Repack nodes join the two worlds.
//
// Packed maps may be halves. What convolutions and norms read beside them (plain inputs, weights, gamma and beta) is
// read as singles; where a graph has halves there, casts join the two.

namespace gyrus {
namespace {

class LayoutPass {
 public:
  explicit LayoutPass(const Graph& graph) : rewrite_(graph) {}

  Graph run() {
    for (const Node& node : rewrite_.old().nodes()) visit(node);
    for (ValueId id : results(rewrite_.old())) rewrite_.replace(id, as(rewrite_(id), Layout::Plain));
    return rewrite_.finish("assign_layout");
  }

 private:
  Graph& graph() { return rewrite_.graph(); }

  // The value in the layout asked for; made once per value and layout. An absent one stays absent.
  ValueId as(ValueId id, Layout layout) {
    if (id == kNoValue || graph().type(id).layout == layout) return id;
    const auto key = std::make_pair(id, layout);
    const auto found = repacked_.find(key);
    if (found != repacked_.end()) return found->second;
    const ValueId made =
        graph().add("repack", {id}, {{"to", std::string(layout == Layout::Packed ? "packed" : "plain")}});
    TensorType type = graph().type(id);
    type.layout = layout;
    graph().set_type(made, type);
    return repacked_[key] = made;
  }

  // One channel is the same in both layouts, and plain does not store three lanes of zeros.
  ValueId as_map(ValueId id) { return graph().type(id).shape[1] > 1 ? as(id, Layout::Packed) : single(id); }

  void emit(const Node& node, std::vector<ValueId> inputs, Layout layout) {
    Node copy = node;
    copy.inputs = std::move(inputs);
    const std::vector<ValueId> outputs = graph().add_node(std::move(copy));
    for (size_t i = 0; i < outputs.size(); ++i) {
      TensorType type = rewrite_.old().type(node.outputs[i]);
      // The results of a body are alike; what else a node gives (statistics) is plain.
      type.layout = i == 0 || i < node.results.size() ? layout : Layout::Plain;
      graph().set_type(outputs[i], type);
      graph().set_name(outputs[i], rewrite_.old().value(node.outputs[i]).name);
      rewrite_.replace(node.outputs[i], outputs[i]);
    }
  }

  void visit(const Node& node) {
    const OpDef& def = op(node.op);
    Node mapped = rewrite_.mapped(node);
    std::vector<ValueId>& inputs = mapped.inputs;
    if (def.packs && !def.packs(graph(), mapped)) return visit_plain_singles(node, inputs);
    switch (def.layout) {
      case LayoutRule::Plain: return visit_plain(node, inputs);
      case LayoutRule::Follows:
        return follows_packed(node, inputs) ? visit_packed_elementwise(node, inputs) : visit_plain(node, inputs);
      case LayoutRule::Packed:
        for (size_t i = 1; i < inputs.size(); ++i) inputs[i] = single(as(inputs[i], Layout::Plain));
        inputs[0] = as(inputs[0], Layout::Packed);
        return emit_packed(node, inputs, def.own_inputs);
      case LayoutRule::Maps:
        for (size_t i = 1; i < inputs.size(); ++i)
          if (inputs[i] != kNoValue && !graph().is_constant(inputs[i]))
            inputs[i] = single(as(inputs[i], Layout::Plain));
        inputs[0] = as_map(inputs[0]);
        return emit_packed(node, inputs, def.own_inputs);
      case LayoutRule::ReadsMaps:
        for (size_t i = 0; i < inputs.size(); ++i)
          inputs[i] = i < 2 ? as_map(inputs[i]) : single(as(inputs[i], Layout::Plain));
        return emit(node, inputs, Layout::Plain);
      case LayoutRule::ReadsPacked: inputs[0] = as(inputs[0], Layout::Packed); return emit(node, inputs, Layout::Plain);
      case LayoutRule::Repacks:  // layouts are decided here and nowhere else
        return rewrite_.replace(node.outputs[0], inputs[0]);
    }
  }

  // A node with packed results; the operands of its body are the inputs from `own_inputs` on.
  void emit_packed(const Node& node, std::vector<ValueId> inputs, size_t own_inputs) {
    const Shape& result = rewrite_.old().type(node.outputs[0]).shape;
    for (size_t i = own_inputs; i < inputs.size(); ++i) {
      if (!is_packable_operand(inputs[i], result))
        inputs[i] = graph().add("expand", {as(inputs[i], Layout::Plain)}, {{"shape", result}});
      inputs[i] = packed_operand(inputs[i], result);
    }
    emit(node, std::move(inputs), Layout::Packed);
  }

  // A plain value of halves as singles; made once per value.
  ValueId single(ValueId id) {
    if (id == kNoValue) return id;
    const TensorType& type = graph().type(id);
    if (type.layout == Layout::Packed || type.dtype != DType::F16) return id;
    const auto found = singles_.find(id);
    if (found != singles_.end()) return found->second;
    return singles_[id] = graph().add("cast", {id}, {{"to", std::string("f32")}});
  }

  void visit_plain_singles(const Node& node, std::vector<ValueId> inputs) {
    for (ValueId& id : inputs) id = single(as(id, Layout::Plain));
    emit(node, inputs, Layout::Plain);
    const TensorType& wanted = rewrite_.old().type(node.outputs[0]);
    if (wanted.dtype != DType::F16) return;
    const ValueId made = rewrite_(node.outputs[0]);
    graph().set_type(made, {DType::F32, wanted.shape, Layout::Plain});
    rewrite_.replace(node.outputs[0], graph().add("cast", {made}, {{"to", std::string("f16")}}));
  }

  void visit_plain(const Node& node, std::vector<ValueId> inputs) {
    for (ValueId& id : inputs) id = as(id, Layout::Plain);
    emit(node, inputs, Layout::Plain);
  }

  // Same shape as the result, one value per channel, of all images or of each ([1,C,1,…], [N,C,1,…]), or a scalar.
  bool is_packable_operand(ValueId id, const Shape& result) {
    const Shape& shape = graph().type(id).shape;
    if (shape == result || element_count(shape) == 1) return true;
    if (shape.size() != result.size() || shape[1] != result[1] || (shape[0] != 1 && shape[0] != result[0]))
      return false;
    return std::all_of(shape.begin() + 2, shape.end(), [](int64_t extent) { return extent == 1; });
  }

  bool follows_packed(const Node& node, const std::vector<ValueId>& inputs) {
    const TensorType& result = rewrite_.old().type(node.outputs[0]);
    if (!is_float(result.dtype) || result.shape.size() < 3) return false;
    bool any = false;
    for (ValueId id : inputs) {
      const bool key = is_indexed(node) && graph().type(id).dtype == DType::I32;
      if (!is_packable_operand(id, result.shape) || !(is_float(graph().type(id).dtype) || key)) return false;
      any = any || (graph().type(id).layout == Layout::Packed && graph().type(id).shape == result.shape);
    }
    return any && op(node.op).dtype_attr.empty();
  }

  // A packed value of one element holds it in the first lane only, so a scalar operand is plain.
  ValueId packed_operand(ValueId id, const Shape& result) {
    const Shape& shape = graph().type(id).shape;
    const bool scalar = shape != result && element_count(shape) == 1;
    return scalar ? single(as(id, Layout::Plain)) : as(id, Layout::Packed);
  }

  void visit_packed_elementwise(const Node& node, std::vector<ValueId> inputs) {
    const Shape& result = rewrite_.old().type(node.outputs[0]).shape;
    for (ValueId& id : inputs) id = packed_operand(id, result);
    emit(node, inputs, Layout::Packed);
  }

  Rewriter rewrite_;
  std::map<std::pair<ValueId, Layout>, ValueId> repacked_;
  std::map<ValueId, ValueId> singles_;
};

}  // namespace

Graph assign_layout(const Graph& graph) { return LayoutPass(graph).run(); }

}  // namespace gyrus
