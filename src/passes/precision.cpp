#include <algorithm>

#include "passes/passes.h"

namespace gyrus {
namespace {
// One value per channel, [1,C,1,…]: parameters, not a map; they keep full precision.
bool is_channel_vector(const Shape& shape) {
  return std::all_of(shape.begin() + 2, shape.end(), [](int64_t extent) { return extent == 1; });
}
}  // namespace

Graph assign_precision(const Graph& graph, Precision precision) {
  Graph result = graph;
  if (precision == Precision::F32) return result;
  for (const Node& node : graph.nodes()) {
    for (ValueId id : node.outputs) {
      TensorType type = graph.type(id);
      const bool map = type.layout == Layout::Packed && type.dtype == DType::F32 && !is_channel_vector(type.shape);
      if (!map) continue;
      type.dtype = DType::F16;
      result.set_type(id, type);
    }
  }
  verify(result, "assign_precision");
  return result;
}

}  // namespace gyrus
