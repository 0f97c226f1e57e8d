#include <set>

#include "core/error.h"
#include "graph/rewriter.h"
#include "ops/elementwise.h"
#include "passes/passes.h"

// From a convolution on, the ops behind it are followed as long as each scales or shifts channels by constants; all of
// them together become one scale and shift, which the convolution takes into its weights and bias.

namespace gyrus {
namespace {

// scale * x + shift for each channel, made by the nodes `steps`, the last of which gives the result.
struct Line {
  std::vector<double> scale, shift;
  std::vector<size_t> steps;
};

// The constant as one value per channel of a tensor of type `type`, or nothing where it varies otherwise.
std::optional<std::vector<double>> per_channel(const Tensor& constant, const Shape& shape) {
  const size_t rank = shape.size();
  if (rank < 2 || constant.shape.size() > rank) return {};
  Shape aligned(rank - constant.shape.size(), 1);
  aligned.insert(aligned.end(), constant.shape.begin(), constant.shape.end());
  for (size_t axis = 0; axis < rank; ++axis)
    if (aligned[axis] != 1 && axis != 1) return {};
  std::vector<double> values;
  for (int64_t c = 0; c < shape[1]; ++c) values.push_back(get(constant, aligned[1] == 1 ? 0 : c));
  return values;
}

class ScaleFolder {
 public:
  explicit ScaleFolder(const Graph& graph)
      : graph_(graph), rewrite_(graph), reader_(graph.value_count(), 0), taken_(graph.nodes().size(), false) {
    for (size_t i = 0; i < graph.nodes().size(); ++i)
      for (ValueId id : graph.nodes()[i].inputs)
        if (id != kNoValue) reader_[id] = i;
    for (ValueId id = 0; id < graph.value_count(); ++id) names_.insert(graph.value(id).name);
  }

  Graph run() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i)
      if (!taken_[i] && !fold(graph_.nodes()[i])) rewrite_.copy(graph_.nodes()[i]);
    return rewrite_.finish("fold_scale");
  }

 private:
  bool fold(const Node& conv) {
    const OpDef& def = op(conv.op);
    if (!def.with_affine) return false;
    const Line line = follow(conv.outputs[0]);
    if (line.steps.empty()) return false;
    const std::string& weights = graph_.value(conv.inputs[1]).name;
    const std::optional<Node> joined =
        def.with_affine(rewrite_.graph(), rewrite_.mapped(conv), line.scale, line.shift, fresh_name(weights));
    if (!joined) return false;
    rewrite_.add_for(graph_.nodes()[line.steps.back()].outputs, *joined);
    for (size_t step : line.steps) taken_[step] = true;
    return true;
  }

  Line follow(ValueId value) const {
    const TensorType& type = graph_.type(value);
    Line line;
    if (type.shape.size() < 2) return line;
    line.scale.assign(static_cast<size_t>(type.shape[1]), 1);
    line.shift.assign(line.scale.size(), 0);
    while (rewrite_.uses(value) == 1 && is_read_by_node(value) && extend(line, value, type))
      value = graph_.nodes()[line.steps.back()].outputs[0];
    return line;
  }

  bool is_read_by_node(ValueId value) const {
    const std::vector<Node>& nodes = graph_.nodes();
    if (reader_[value] >= nodes.size()) return false;
    for (ValueId id : nodes[reader_[value]].inputs)
      if (id == value) return true;
    return false;
  }

  // Takes the node that reads `value` into the line, where it is a scale or shift.
  bool extend(Line& line, ValueId value, const TensorType& type) const {
    const Node& node = graph_.nodes()[reader_[value]];
    const Elementwise* row = op(node.op).elementwise;
    if (!row || !row->as_affine || graph_.type(node.outputs[0]) != type) return false;
    const size_t k = node.inputs[0] == value ? 0 : 1;
    std::vector<double> constants(line.scale.size(), 0);
    if (node.inputs.size() == 2) {
      const ValueId other = node.inputs[1 - k];
      if (!graph_.is_constant(other)) return false;
      const std::optional<std::vector<double>> values = per_channel(graph_.constant(other), type.shape);
      if (!values) return false;
      constants = *values;
    }
    const std::vector<double> numbers = row_numbers(*row, node.attrs);
    Line next = line;
    for (size_t c = 0; c < constants.size(); ++c) {
      const std::optional<ScaleShift> affine = row->as_affine(numbers.data(), k, constants[c]);
      if (!affine) return false;
      next.scale[c] *= affine->scale;
      next.shift[c] = next.shift[c] * affine->scale + affine->shift;
    }
    next.steps.push_back(reader_[value]);
    line = std::move(next);
    return true;
  }

  // "w.folded"; a number follows where several convolutions share their weights.
  std::string fresh_name(const std::string& weights) {
    if (weights.empty()) return {};
    std::string name = weights + ".folded";
    for (int i = 2; !names_.insert(name).second; ++i) name = cat(weights, ".folded", i);
    return name;
  }

  const Graph& graph_;
  Rewriter rewrite_;
  std::vector<size_t> reader_;  // a node that reads the value
  std::vector<bool> taken_;     // nodes that went into a convolution
  std::set<std::string> names_;
};

}  // namespace

Graph fold_scale(const Graph& graph) { return ScaleFolder(graph).run(); }

}  // namespace gyrus
