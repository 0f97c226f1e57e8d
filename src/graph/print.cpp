#include <sstream>

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

void print_attrs(std::ostringstream& out, const Attrs& attrs) {
  if (!attrs.all().empty()) out << " {" << to_string(attrs) << "}";
}

// " => $1 = relu($0); $2 = …": operands and results of a body count from $0.
void print_body(std::ostringstream& out, const std::vector<Node>& body, size_t operands) {
  for (size_t j = 0; j < body.size(); ++j) {
    out << (j ? "; $" : " => $") << operands + j << " = " << body[j].op << '(';
    for (size_t i = 0; i < body[j].inputs.size(); ++i) out << (i ? ", $" : "$") << body[j].inputs[i];
    out << ')';
    print_attrs(out, body[j].attrs);
  }
}

void print_node(std::ostringstream& out, const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.outputs.size(); ++i) out << (i ? ", " : "") << definition(graph, node.outputs[i]);
  out << " = " << node.op << '(';
  for (size_t i = 0; i < node.inputs.size(); ++i) out << (i ? ", " : "") << reference_to(graph, node.inputs[i]);
  out << ')';
  print_attrs(out, node.attrs);
  if (!node.body.empty()) print_body(out, node.body, body_operands(node));
  if (!node.label.empty()) out << "  # " << node.label;
  out << '\n';
}

}  // namespace

std::string print(const Graph& graph, const Node& node) {
  std::ostringstream out;
  print_node(out, graph, node);
  std::string text = out.str();
  text.pop_back();
  return text;
}

std::string print(const Graph& graph) {
  std::ostringstream out;
  for (const Port& port : graph.inputs())
    out << "input " << port.name << " = " << definition(graph, port.value) << '\n';
  for (const State& state : graph.states())
    out << "state " << state.name << " = " << definition(graph, state.value) << '\n';
  for (const Argument& argument : graph.arguments())
    out << "argument " << argument.name << " = " << definition(graph, argument.value) << " from " << argument.least
        << " to " << argument.most << '\n';
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) out << "constant " << definition(graph, id) << '\n';
  for (const Node& node : graph.nodes()) print_node(out, graph, node);
  for (const Port& port : graph.outputs())
    out << "output " << port.name << " = " << reference_to(graph, port.value) << '\n';
  for (const Port& port : graph.captures())
    out << "capture " << port.name << " = " << reference_to(graph, port.value) << '\n';
  for (const State& state : graph.states())
    if (state.next != kNoValue) out << "update " << state.name << " = " << reference_to(graph, state.next) << '\n';
  return out.str();
}

}  // namespace gyrus
