#include "train/autodiff.h"

#include "core/error.h"
#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/building.h"
#include "ops/elementwise.h"

namespace gyrus {
namespace {

bool has_gradient(const OpDef& def) { return def.gradient || (def.elementwise && def.elementwise->derivative); }

// Walks the nodes backwards and collects the gradient of every value.
class Autodiff {
 public:
  Autodiff(Graph& graph, const std::vector<ValueId>& of, Recompute recompute)
      : graph_(graph),
        recompute_(recompute),
        depends_(graph.value_count(), false),
        gradients_(graph.value_count()),
        makers_(producers(graph)),
        recomputed_(graph.value_count(), kNoValue) {
    for (ValueId id : of) depends_.at(id) = true;
    for (const Node& node : graph.nodes())
      for (ValueId id : node.inputs)
        if (id != kNoValue && depends_[id]) mark(node.outputs);
  }

  void add(ValueId id, Value gradient) {
    if (!gradient || !depends_.at(id)) return;
    gradients_[id] = gradients_[id] ? gyrus::add(gradients_[id], gradient) : gradient;
  }

  void run() {
    const std::string label = graph_.label();
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      const Node node = graph_.nodes()[i];
      if (!reached(node)) continue;
      graph_.set_label((node.label.empty() ? node.op : node.label) + ".gradient");
      back(node);
    }
    graph_.set_label(label);
  }

  ValueId gradient(ValueId id) const { return gradients_.at(id) ? gradients_[id].id() : kNoValue; }

 private:
  // Only numbers that vary smoothly have one.
  void mark(const std::vector<ValueId>& outputs) {
    for (ValueId id : outputs)
      if (is_float(graph_.type(id).dtype)) depends_[id] = true;
  }

  bool reached(const Node& node) const {
    bool asked = false, wanted = false;
    for (ValueId id : node.outputs) asked = asked || gradients_[id];
    for (ValueId id : node.inputs) wanted = wanted || (id != kNoValue && depends_[id]);
    return asked && wanted;
  }

  // What stands for a value on the way back: itself, or, where it is not to be kept, the same made again. What does
  // not depend on parameters is not made again, since it is there before the first layer.
  ValueId again(ValueId id) {
    if (id == kNoValue || makers_.at(id) < 0 || !depends_[id]) return id;
    Node maker = graph_.nodes()[static_cast<size_t>(makers_[id])];
    const OpDef& def = op(maker.op);
    const bool cheap = (recompute_ != Recompute::None && def.recomputed) ||
                       (recompute_ == Recompute::Cheap && def.elementwise != nullptr);
    if (!cheap || id != maker.outputs.front()) return id;
    if (recomputed_[id] != kNoValue) return recomputed_[id];
    if (recompute_ == Recompute::Cheap)
      for (ValueId& input : maker.inputs) input = again(input);
    return recomputed_[id] = graph_.add_node(std::move(maker)).front();
  }

  Value value(ValueId id) { return id == kNoValue ? Value{} : Value(graph_, id); }
  // The same for gradients of whole ops, which keep the results of norms.
  Value kept(ValueId id) { return value(recompute_ == Recompute::Cheap ? again(id) : id); }

  void back(const Node& node) {
    std::vector<bool> wanted;
    for (ValueId id : node.inputs) wanted.push_back(id != kNoValue && depends_[id]);
    const OpDef& def = op(node.op);
    if (def.elementwise && def.elementwise->derivative) return back_elementwise(node, wanted);
    if (!node.body.empty())
      fail(ErrorCode::Unsupported, node.label.empty() ? node.op : node.label, "the op ", node.op,
           " carries a body, as passes give it; there is no gradient behind them");
    if (!def.gradient)
      fail(ErrorCode::Unsupported, node.label.empty() ? node.op : node.label, "the op ", node.op, " has no gradient");
    Backward step{node, {}, {}, {}, wanted};
    for (ValueId id : node.inputs) step.inputs.push_back(kept(id));
    for (ValueId id : node.outputs) {
      step.outputs.push_back(value(id));
      step.gradients.push_back(gradients_[id]);
    }
    const std::vector<Value> found = def.gradient(step);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (wanted[i] && i < found.size()) add(node.inputs[i], found[i]);
  }

  void back_elementwise(const Node& node, const std::vector<bool>& wanted) {
    const Derivative derivative = derivative_of(node, wanted);
    const Value g = gradients_[node.outputs[0]];
    std::vector<ValueId> made;
    if (!derivative.node.results.empty()) {
      Node fused = derivative.node;
      fused.label = graph_.label();
      for (size_t k : derivative.operands)
        fused.inputs.push_back(k < node.inputs.size()    ? again(node.inputs[k])
                               : k == node.inputs.size() ? kept(node.outputs[0]).id()
                                                         : g.id());
      made = graph_.add_node(std::move(fused));
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const size_t result = derivative.results[k];
      if (result == Derivative::kNone) continue;
      Value slope = result == Derivative::kPassed ? g : Value(graph_, made.at(result));
      const TensorType type = graph_.type(node.inputs[k]);
      if (slope.dtype() != type.dtype) slope = cast(slope, type.dtype);
      add(node.inputs[k], sum_to(slope, type.shape));
    }
  }

  Graph& graph_;
  Recompute recompute_;
  std::vector<bool> depends_;
  std::vector<Value> gradients_;
  std::vector<int64_t> makers_;  // nodes of the forward values
  std::vector<ValueId> recomputed_;
};

}  // namespace

Graph differentiable(const Graph& graph) {
  return take_apart(graph, "differentiable", [](const Graph&, const Node& node) { return !has_gradient(op(node.op)); });
}

std::vector<ValueId> add_gradients(Graph& graph, const std::vector<Seed>& seeds, const std::vector<ValueId>& of,
                                   Recompute recompute) {
  Autodiff autodiff(graph, of, recompute);
  for (const Seed& seed : seeds) {
    if (graph.type(seed.value).shape != graph.type(seed.gradient).shape)
      fail(ErrorCode::InvalidGraph, "gradient", "a value is ", to_string(graph.type(seed.value).shape),
           " and its gradient ", to_string(graph.type(seed.gradient).shape), ": expected the same");
    autodiff.add(seed.value, {graph, seed.gradient});
  }
  autodiff.run();
  std::vector<ValueId> found;
  for (ValueId id : of) found.push_back(autodiff.gradient(id));
  return found;
}

}  // namespace gyrus
