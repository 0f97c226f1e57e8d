// Graphs of model files made ready for training.
#include <set>

#include "core/error.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/rewriter.h"
#include "gyrus/losses.h"
#include "gyrus/train.h"
#include "ops/batch_norm.h"

namespace gyrus {
namespace {

// Running means and variances, which gradients do not change.
std::set<ValueId> statistics(const Graph& graph) {
  std::set<ValueId> ids;
  for (const Node& node : graph.nodes())
    if (&op(node.op) == &kBatchNorm) ids.insert({node.inputs.at(1), node.inputs.at(2)});
  return ids;
}

bool is_weight(const Graph& graph, ValueId id) {
  const ValueInfo& value = graph.value(id);
  return graph.is_constant(id) && !value.name.empty() && value.type.dtype == DType::F32 && !value.type.shape.empty();
}

struct LossRow {
  const char* name;
  bool classes;  // the target is classes
  Value (*make)(Value y, Value target);
};

constexpr LossRow kLosses[] = {
    {"cross_entropy", true, [](Value y, Value t) { return cross_entropy(y, t); }},
    {"dice", true, [](Value y, Value t) { return dice(y, t); }},
    {"dice_cross_entropy", true, [](Value y, Value t) { return dice(y, t) + cross_entropy(y, t); }},
    {"focal", true, [](Value y, Value t) { return focal(y, t); }},
    {"bce", false, [](Value y, Value t) { return bce_with_logits(y, t); }},
    {"mse", false, [](Value y, Value t) { return mse(y, t); }},
    {"l1", false, [](Value y, Value t) { return l1(y, t); }},
    {"huber", false, [](Value y, Value t) { return huber(y, t); }},
};

const LossRow& row_of(const std::string& name) {
  std::string known;
  for (const LossRow& row : kLosses) {
    if (row.name == name) return row;
    known += std::string(known.empty() ? "" : ", ") + row.name;
  }
  fail(ErrorCode::InvalidInput, "loss", "'", name, "' is none of: ", known);
}

ValueId output_of(const Graph& graph, const std::string& name) {
  std::string known;
  for (const Port& port : graph.outputs()) {
    if (name.empty() || port.name == name) return port.value;
    known += (known.empty() ? "" : ", ") + port.name;
  }
  fail(ErrorCode::InvalidInput, "loss", "the network has no output '", name,
       "'; it has: ", known.empty() ? "none" : known);
}

}  // namespace

Graph with_parameters(const Graph& graph) {
  const std::set<ValueId> kept = statistics(graph);
  Rewriter rewrite(graph);
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const ValueInfo& value = graph.value(id);
    if (is_weight(graph, id) && kept.count(id) == 0)
      rewrite.replace(id, rewrite.graph().add_state(value.name, value.type, value.constant));
  }
  for (const Node& node : graph.nodes()) rewrite.copy(node);
  return rewrite.finish("parameters");
}

Graph with_loss(const Graph& graph, const std::string& loss, const std::string& of) {
  const LossRow& row = row_of(loss);
  Graph result = graph;
  const Value y(result, output_of(result, of));
  Shape shape = y.shape();
  if (row.classes) {
    if (shape.size() < 2)
      fail(ErrorCode::InvalidGraph, loss, "the output is ", to_string(shape), ", expected scores [N,C,…]");
    shape.erase(shape.begin() + 1);
  }
  const Value target = result.input("target", row.classes ? DType::I32 : y.dtype(), shape);
  result.set_label("loss");
  result.output("loss", row.make(y, target));
  result.set_label({});
  return result;
}

}  // namespace gyrus
