#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/common.h"
#include "ops/index_map.h"
#include "ops/strided.h"
#include "passes/passes.h"

namespace gyrus {
namespace {

// Where the elements of a value lie in another one: a map without a box.
struct View {
  ValueId base = kNoValue;
  IndexMap map;
  int moves = 0;  // ops that it stands for
};

// The map over an intermediate value of that shape, seen through the map of this value itself; nothing where a step
// along an axis would run over the end of an axis in between.
std::optional<IndexMap> through(const IndexMap& outer, const Shape& extents, const Shape& middle,
                                const IndexMap& inner) {
  const std::vector<int64_t> dense = strides_of(middle);
  std::vector<int64_t> used(middle.size());  // the largest coordinate that is read
  IndexMap map;
  map.offset = inner.offset;
  for (size_t a = 0; a < middle.size(); ++a) {
    used[a] = outer.offset / dense[a] % middle[a];
    map.offset += used[a] * inner.strides[a];
  }
  for (size_t i = 0; i < extents.size(); ++i) {
    map.strides.push_back(0);
    const int64_t stride = outer.strides[i];
    if (extents[i] == 1 || stride == 0) continue;
    if (stride < 0) return std::nullopt;
    size_t a = 0;
    while (a < middle.size() && (middle[a] == 1 || stride % dense[a] != 0 || stride < dense[a])) ++a;
    if (a == middle.size()) return std::nullopt;
    used[a] += stride / dense[a] * (extents[i] - 1);
    if (used[a] >= middle[a]) return std::nullopt;
    map.strides.back() = stride / dense[a] * inner.strides[a];
  }
  return map;
}

// What a node does, if it moves the elements of one operand and has one for each of its own.
std::optional<View> view_of(const Graph& graph, const Node& node) {
  const OpDef& def = op(node.op);
  const Shape& shape = graph.type(node.outputs[0]).shape;
  if (node.inputs.size() != 1 || element_count(shape) == 0) return std::nullopt;
  const Shape& given = graph.type(node.inputs[0]).shape;
  View view{node.inputs[0], {}, def.alias ? 0 : 1};
  if (def.alias) {
    view.map.strides = strides_of(shape);
    return view;
  }
  if (!def.index_maps) return std::nullopt;
  view.map = def.index_maps(node, {given}, shape)[0];
  return view.map.lo.empty() ? std::optional(view) : std::nullopt;
}

}  // namespace

Graph join_movement(const Graph& graph) {
  Rewriter rewrite(graph);
  for (const Node& node : graph.nodes()) {
    std::optional<View> view = op(node.op).index_maps ? view_of(graph, node) : std::nullopt;
    const Shape& shape = graph.type(node.outputs[0]).shape;
    while (view) {
      const Node* maker = rewrite.old_maker(view->base);
      const std::optional<View> before = maker ? view_of(graph, *maker) : std::nullopt;
      if (!before) break;
      const std::optional<IndexMap> map = through(view->map, shape, graph.type(view->base).shape, before->map);
      if (!map) break;
      view = View{before->base, *map, view->moves + before->moves};
    }
    if (!view || view->moves < 2) {
      rewrite.copy(node);
      continue;
    }
    Node joined;
    joined.op = kStrided.name;
    joined.label = node.label;
    joined.inputs = {rewrite(view->base)};
    joined.attrs.set("shape", shape);
    joined.attrs.set("strides", view->map.strides);
    joined.attrs.set("offset", view->map.offset);
    rewrite.add(node, std::move(joined));
  }
  return rewrite.finish("join_movement");
}

}  // namespace gyrus
