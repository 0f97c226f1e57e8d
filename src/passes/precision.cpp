#include <algorithm>

#include "core/error.h"
#include "passes/passes.h"

namespace gyrus {
namespace {
// One value per channel, [1,C,1,…]: parameters, not a map; they keep full precision.
bool is_channel_vector(const Shape& shape) {
  return std::all_of(shape.begin() + 2, shape.end(), [](int64_t extent) { return extent == 1; });
}
}  // namespace

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
  verify(result, "assign_precision");
  return result;
}

}  // namespace gyrus
