// The order of weights is an op: computed when the plan is made where they are constant, else by a kernel.
#include "core/error.h"
#include "graph/op.h"
#include "graph/rewriter.h"
#include "ops/arrange.h"
#include "ops/evaluate.h"
#include "plan/lower_conv.h"
#include "plan/lowerings.h"

namespace gyrus {
namespace {

// The weights of a node in one order, as a value of the graph in the making.
ValueId arranged(Rewriter& rewrite, const Node& node, const std::vector<ValueId>& operands, const Attrs& attrs) {
  Graph& graph = rewrite.graph();
  Node arrange;
  arrange.op = kArrange.name;
  arrange.attrs = attrs;
  arrange.inputs = operands;
  arrange.label = node.label;
  if (!graph.is_constant(operands[0]) || !graph.is_constant(operands[1])) return graph.add_node(arrange)[0];
  const std::vector<TensorType> types = kArrange.infer(arrange, {graph.type(operands[0]), graph.type(operands[1])});
  return graph.add_constant("",
                            evaluate(arrange, {&graph.constant(operands[0]), &graph.constant(operands[1])}, types)[0]);
}

}  // namespace

Graph arrange_weights(const Graph& graph, const Target& target, const PlanOptions& options) {
  Rewriter rewrite(graph);
  const auto order = [&](const Node& node) {
    const OrderWeights orders = lowering_of(node).order;
    return orders ? orders(graph, node, target, options) : WeightOrders{};
  };
  const auto arrange = [&](const Node& node, const WeightOrders& orders) {
    std::vector<ValueId> operands = {rewrite(node.inputs[1])};
    operands.push_back(has_operand(node, 2) ? rewrite(node.inputs[2])
                                            : rewrite.graph().add_constant(
                                                  "", Tensor(DType::F32, {graph.type(node.inputs[1]).shape[0]})));
    std::vector<ValueId> inputs = operands;
    for (const Attrs& attrs : orders.storage) inputs.push_back(arranged(rewrite, node, operands, attrs));
    if (orders.uniform) inputs.push_back(arranged(rewrite, node, operands, *orders.uniform));
    return inputs;
  };
  // Weights that no node makes are arranged before everything else, one after another: kernels that do not wait for
  // each other run side by side.
  std::vector<std::vector<ValueId>> early(graph.nodes().size());
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const WeightOrders orders = order(node);
    if (!orders.storage.empty() && !rewrite.old_maker(node.inputs[1]) &&
        !(has_operand(node, 2) && rewrite.old_maker(node.inputs[2])))
      early[n] = arrange(node, orders);
  }
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const WeightOrders orders = order(node);
    if (orders.storage.empty()) {
      rewrite.copy(node);
      continue;
    }
    const std::vector<ValueId> weights = early[n].empty() ? arrange(node, orders) : early[n];
    Node ordered = node;
    ordered.inputs = {rewrite(node.inputs[0])};
    ordered.inputs.insert(ordered.inputs.end(), weights.begin(), weights.end());
    for (size_t i = 3; i < node.inputs.size(); ++i) ordered.inputs.push_back(rewrite(node.inputs[i]));
    ordered.attrs.set("arranged", static_cast<int64_t>(weights.size() - 2));
    ordered.attrs.set("uniforms", int64_t{orders.uniform ? 1 : 0});
    rewrite.add(node, std::move(ordered));
  }
  return rewrite.finish("arrange_weights");
}

void lower_arrange(Lowering& lowering, const Node& node) {
  const ArrangeAttrs a = arrange_attrs(node, lowering.graph().type(node.inputs[0]).shape);
  const StoragePtr out = lowering.make_storage(node.outputs[0], node);
  const bool transformed = a.kernel == ArrangeAttrs::Kernel::Winograd || a.kernel == ArrangeAttrs::Kernel::WinogradLast;
  Kernel k(lowering, "arrange", label_of(node));
  k.name("arrange").workgroup(64);
  const Storage &weight = *lowering.storage(node.inputs[0]), &bias = *lowering.storage(node.inputs[1]);
  k.read("weight", weight).read("bias", bias);
  k.text("weight_element", element_text(weight, "weight", "i"));
  k.text("bias_element", element_text(bias, "bias", "P.bias_shift + output + l"));
  const bool matrix = a.kernel == ArrangeAttrs::Kernel::Matrix;
  if (matrix) {
    const Window w = whole_window(quad_view(*out), lowering.limits(), label_of(node));
    k.write("rows", w.range, {Scalar::U32, 4}).param("rows_shift", w.skip).param("depth", a.depth);
  } else {
    k.write("rows", quad_view(*out));
  }
  k.param("all_rows", a.all_rows()).param("weight_rows", a.weight_rows()).param("lanes", a.lanes);
  k.param("begin", a.begin).param("quads", a.quads()).param("held", a.held).param("groups_of_quads", a.groups());
  k.param("inputs", a.inputs).param("outputs", std::min(a.outputs, a.end * 4));
  k.param("planes", a.planes).param("taps_h", a.rows).param("taps_w", a.columns);
  k.param("points", a.kernel == ArrangeAttrs::Kernel::WinogradLast ? int64_t{1} : kWinogradPoints);
  k.flag("matrix", matrix).flag("argmax", a.kernel == ArrangeAttrs::Kernel::Argmax).flag("winograd", transformed);
  k.flag("direct", a.kernel == ArrangeAttrs::Kernel::Direct);
  k.dispatch((static_cast<uint64_t>(a.all_rows()) + k.workgroup() - 1) / k.workgroup(),
             {0, static_cast<double>(a.all_rows()) * kVec4Bytes});
}

}  // namespace gyrus
