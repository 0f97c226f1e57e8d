#include "core/error.h"
#include "graph/op.h"
#include "graph/rewriter.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

DType narrowed(DType dtype) { return dtype == DType::I64 ? DType::I32 : dtype == DType::Bool ? DType::U8 : dtype; }

void narrow_value(Graph& graph, ValueId id) {
  TensorType type = graph.type(id);
  type.dtype = narrowed(type.dtype);
  graph.set_type(id, type);
}

// The node over narrow operands; truth values stay what the op makes, and are stored as bytes.
void narrow_node(Rewriter& rewrite, const Node& node) {
  Node result = rewrite.mapped(node);
  const std::string attr(op(node.op).dtype_attr);
  if (result.attrs.has(attr) && result.attrs.text(attr) == to_string(DType::I64))
    result.attrs.set(attr, std::string(to_string(DType::I32)));
  for (ValueId id : rewrite.add_for(node.outputs, std::move(result))) narrow_value(rewrite.graph(), id);
}

}  // namespace

bool is_wide(DType dtype) { return dtype == DType::I64 || dtype == DType::Bool; }

Tensor narrow(const Tensor& tensor, const std::string& name, ErrorCode code) {
  Tensor result(narrowed(tensor.dtype), tensor.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const int64_t value = tensor.dtype == DType::I64 ? tensor.as<int64_t>()[i] : tensor.as<uint8_t>()[i] != 0;
    if (value < INT32_MIN || value > INT32_MAX)
      fail(code, name.empty() ? "constant" : name, "element ", i, " is ", value,
           ", which does not fit 32 bits; devices have no wider integers");
    set(result, i, static_cast<double>(value));
  }
  return result;
}

Tensor widen(const Tensor& tensor, DType dtype) {
  Tensor result(dtype, tensor.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) set(result, i, get(tensor, i));
  return result;
}

Graph narrow_integers(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const State& state : graph.states())
    if (is_wide(graph.type(state.value).dtype))
      fail(ErrorCode::Unsupported, state.name, "is a state of ", to_string(graph.type(state.value).dtype),
           "; states are kept on the device: use i32 or u8");
  for (const Port& input : graph.inputs()) narrow_value(rewrite.graph(), rewrite(input.value));
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const ValueInfo& value = graph.value(id);
    if (value.constant && is_wide(value.type.dtype))
      rewrite.replace(
          id, rewrite.graph().add_constant(value.name, narrow(*value.constant, value.name, ErrorCode::InvalidGraph)));
  }
  for (const Node& node : graph.nodes()) {
    bool wide = false;
    for (ValueId id : node.inputs) wide = wide || (id != kNoValue && is_wide(graph.type(id).dtype));
    for (ValueId id : node.outputs) wide = wide || is_wide(graph.type(id).dtype);
    if (wide)
      narrow_node(rewrite, node);
    else
      rewrite.copy(node);
  }
  return rewrite.finish("narrow_integers");
}

}  // namespace gyrus
