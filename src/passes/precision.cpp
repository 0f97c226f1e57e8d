#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "passes/passes.h"

namespace gyrus {
namespace {
// One value per channel, [1,C,1,…]: parameters, not a map; they keep full precision.
bool is_channel_vector(const Shape& shape) {
  return std::all_of(shape.begin() + 2, shape.end(), [](int64_t extent) { return extent == 1; });
}
// Whether a node of maps reads an operand in halves as well as in singles.
bool reads_halves(const Node& node, size_t operand) {
  switch (op(node.op).layout) {
    case LayoutRule::Follows: return true;
    case LayoutRule::Packed:
    case LayoutRule::Maps:
    case LayoutRule::ReadsPacked: return operand == 0 || operand >= own_inputs(node);
    default: return false;
  }
}

bool makes_map(const Graph& graph, const Node& node, size_t result, const std::vector<bool>& maps) {
  const OpDef& def = op(node.op);
  if (def.packs && !def.packs(graph, node)) return false;
  const bool own = result == 0 || result < node.results.size();
  if (def.layout == LayoutRule::Packed || def.layout == LayoutRule::Maps) return own;
  return def.layout == LayoutRule::Follows &&
         std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return id != kNoValue && maps[id]; });
}

}  // namespace

Graph store_halves(const Graph& graph) {
  std::vector<bool> maps(graph.value_count(), false), only_maps(graph.value_count(), true);
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && !reads_halves(node, i)) only_maps[node.inputs[i]] = false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorType& type = graph.type(node.outputs[i]);
      maps[node.outputs[i]] = type.dtype == DType::F32 && type.shape.size() > 2 && !is_channel_vector(type.shape) &&
                              makes_map(graph, node, i, maps);
    }
  }
  for (ValueId id : results(graph)) only_maps[id] = false;
  Graph stored = graph;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (maps[id] && only_maps[id]) stored.set_type(id, {DType::F16, graph.type(id).shape, graph.type(id).layout});
  verify(stored, "store_halves");
  return stored;
}

Graph assign_precision(const Graph& graph, Precision precision) {
  const auto [storage, compute] = precision;
  if (compute != DType::F32 || (storage != DType::F32 && storage != DType::F16))
    fail(ErrorCode::Unsupported, "precision", "no kernel stores ", to_string(storage), " and computes in ",
         to_string(compute), "; there are f32 and f16 for storage, computed in f32");
  Graph result = graph;
  if (storage == DType::F32) return result;
  for (const Node& node : graph.nodes()) {
    for (ValueId id : node.outputs) {
      TensorType type = graph.type(id);
      const bool map = type.layout == Layout::Packed && type.dtype == DType::F32 && !is_channel_vector(type.shape);
      if (!map) continue;
      type.dtype = storage;
      result.set_type(id, type);
    }
  }
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    if (op(graph.nodes()[n].op).multiplies) result.set_attr(n, "halves", int64_t{1});
  verify(result, "assign_precision");
  return result;
}

}  // namespace gyrus
