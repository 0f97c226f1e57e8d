#include "core/error.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace gyrus {
namespace {

std::string reference_to(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "none";
  if (id >= graph.value_count()) return "%?";
  const ValueInfo& value = graph.value(id);
  if (value.constant && !value.name.empty()) return "@" + value.name;
  return "%" + std::to_string(id);
}

std::string type_text(const TensorType& type) {
  return std::string(to_string(type.dtype)) + to_string(type.shape) + (type.layout == Layout::Packed ? "/packed" : "");
}

std::string definition(const Graph& graph, ValueId id) {
  return reference_to(graph, id) + ":" + (id < graph.value_count() ? type_text(graph.type(id)) : "?");
}

std::string attrs_text(const Attrs& attrs) { return attrs.all().empty() ? "" : " {" + to_string(attrs) + "}"; }

// " => $1 = relu($0); $2 = …": operands and results of a body count from $0.
std::string body_text(const std::vector<Node>& body, size_t operands) {
  std::string text;
  for (size_t j = 0; j < body.size(); ++j) {
    text += cat(j ? "; $" : " => $", operands + j, " = ", body[j].op, '(');
    for (size_t i = 0; i < body[j].inputs.size(); ++i) text += cat(i ? ", $" : "$", body[j].inputs[i]);
    text += ')' + attrs_text(body[j].attrs);
  }
  return text;
}

}  // namespace

std::string print(const Graph& graph, const Node& node) {
  std::string text;
  for (size_t i = 0; i < node.outputs.size(); ++i) text += (i ? ", " : "") + definition(graph, node.outputs[i]);
  text += " = " + node.op + '(';
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + reference_to(graph, node.inputs[i]);
  text += ')' + attrs_text(node.attrs);
  if (!node.body.empty()) text += body_text(node.body, body_operands(node));
  return node.label.empty() ? text : text + "  # " + node.label;
}

std::string print(const Graph& graph) {
  std::string text;
  for (const Port& port : graph.inputs()) text += cat("input ", port.name, " = ", definition(graph, port.value), '\n');
  for (const State& state : graph.states())
    text += cat("state ", state.name, " = ", definition(graph, state.value), '\n');
  for (const Argument& argument : graph.arguments())
    text += cat("argument ", argument.name, " = ", definition(graph, argument.value), " from ", argument.least, " to ",
                argument.most, '\n');
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) text += cat("constant ", definition(graph, id), '\n');
  for (const Node& node : graph.nodes()) text += print(graph, node) + '\n';
  for (const Port& port : graph.outputs())
    text += cat("output ", port.name, " = ", reference_to(graph, port.value), '\n');
  for (const Port& port : graph.captures())
    text += cat("capture ", port.name, " = ", reference_to(graph, port.value), '\n');
  for (const State& state : graph.states())
    if (state.next != kNoValue) text += cat("update ", state.name, " = ", reference_to(graph, state.next), '\n');
  return text;
}

}  // namespace gyrus
