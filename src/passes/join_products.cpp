#include <algorithm>
#include <map>
#include <set>

#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/index_map.h"
#include "passes/passes.h"

// Products of one value with several constants (queries, keys and values) become one product, of which slices are
// taken. Only where the results are moved anyway: `join_movement` then reads the slice in that move, so that nothing is
// copied more often than before.

namespace gyrus {
namespace {

class ProductJoiner {
 public:
  explicit ProductJoiner(const Graph& graph)
      : graph_(graph), rewrite_(graph), readers_(graph.value_count()), moves_(graph.value_count(), false) {
    for (const Node& node : graph.nodes())
      for (ValueId id : node.inputs)
        if (id != kNoValue) readers_[id].push_back(&node);
    for (size_t n = graph.nodes().size(); n-- > 0;)
      for (ValueId id : graph.nodes()[n].outputs) moves_[id] = is_moved(id);
  }

  Graph run() {
    for (const Node& node : graph_.nodes())
      if (is_candidate(node)) groups_[{node.inputs[0], node.op}].push_back(&node);
    for (const Node& node : graph_.nodes()) {
      if (is_joined(node)) continue;
      if (!is_candidate(node) || !join(groups_.at({node.inputs[0], node.op}))) rewrite_.copy(node);
    }
    return rewrite_.finish("join_products");
  }

 private:
  // Whether every reader moves the elements to other places, perhaps behind another name of the same bytes.
  bool is_moved(ValueId id) const {
    if (readers_[id].empty() || readers_[id].size() != rewrite_.uses(id)) return false;
    for (const Node* reader : readers_[id]) {
      const OpDef& def = op(reader->op);
      const ValueId result = reader->outputs[0];
      if (reader->inputs.size() != 1) return false;
      const bool moves =
          def.alias ? moves_[result]
                    : def.index_maps &&
                          def.index_maps(*reader, {graph_.type(id).shape}, graph_.type(result).shape)[0].lo.empty();
      if (!moves) return false;
    }
    return true;
  }

  bool is_candidate(const Node& node) const {
    const auto is_given = [&](ValueId id) { return id == kNoValue || graph_.is_constant(id); };
    return op(node.op).with_others && node.outputs.size() == 1 && moves_[node.outputs[0]] &&
           std::all_of(node.inputs.begin() + 1, node.inputs.end(), is_given);
  }
  bool is_joined(const Node& node) const { return joined_.count(node.outputs[0]) > 0; }

  // Puts one node and slices of its result in the place of all of these.
  bool join(std::vector<const Node*>& group) {
    if (group.size() < 2) return false;
    std::vector<Node> nodes;
    for (const Node* node : group) nodes.push_back(rewrite_.mapped(*node));
    const std::optional<Node> all = op(nodes[0].op).with_others(rewrite_.graph(), nodes);
    if (!all) {
      group.clear();
      return false;
    }
    const ValueId product = rewrite_.graph().add_node(*all).front();
    Shape ends = rewrite_.graph().type(product).shape;
    Shape starts(ends.size(), 0);
    for (const Node* node : group) {
      const ValueId id = node->outputs[0];
      ends.back() = starts.back() + graph_.type(id).shape.back();
      Node slice;
      slice.op = "slice";
      slice.attrs = {{"starts", starts}, {"ends", ends}};
      slice.inputs = {product};
      slice.label = node->label;
      rewrite_.add_for({id}, std::move(slice));
      joined_.insert(id);
      starts.back() = ends.back();
    }
    return true;
  }

  const Graph& graph_;
  Rewriter rewrite_;
  std::vector<std::vector<const Node*>> readers_;
  std::vector<bool> moves_;
  std::map<std::pair<ValueId, std::string>, std::vector<const Node*>> groups_;
  std::set<ValueId> joined_;
};

}  // namespace

Graph join_products(const Graph& graph) { return ProductJoiner(graph).run(); }

}  // namespace gyrus
