#include <set>

#include "core/error.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace gyrus {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const std::string& after) : graph_(graph), after_(after), made_(graph.value_count()) {}

  void run() {
    check_names();
    for (const Port& port : graph_.inputs()) make(port.value, "input '" + port.name + "'");
    for (const State& state : graph_.states()) check_state(state);
    for (const Argument& argument : graph_.arguments()) check_argument(argument);
    for (ValueId id = 0; id < graph_.value_count(); ++id)
      if (graph_.is_constant(id)) check_constant(id);
    for (size_t i = 0; i < graph_.nodes().size(); ++i) check_node(i);
    check_outputs();
  }

 private:
  template <class... Args>
  [[noreturn]] void damaged(const std::string& subject, const Args&... message) const {
    fail(ErrorCode::InvalidGraph, subject, message..., " (after ", after_, ")");
  }

  // The subject of messages: "conv #3 'layer3.conv'".
  std::string node_name(size_t index) const {
    const Node& node = graph_.nodes()[index];
    return cat(node.op, " #", index, node.label.empty() ? "" : " '" + node.label + "'");
  }

  void check_names() const {
    std::set<std::string> names;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const std::string& name = graph_.value(id).name;
      if (!name.empty() && !names.insert(name).second) damaged("graph", "two values are named '", name, "'");
    }
    std::set<std::string> sources, results;
    check_ports(graph_.inputs(), "inputs", sources);
    check_ports(graph_.states(), "states", sources);
    check_ports(graph_.arguments(), "arguments", sources);
    check_ports(graph_.outputs(), "outputs", results);
    check_ports(graph_.captures(), "outputs or captures", results);
  }

  template <class Ports>
  void check_ports(const Ports& ports, const char* what, std::set<std::string>& names) const {
    for (const auto& port : ports) {
      if (port.name.empty()) damaged("graph", "one of the ", what, " has no name");
      if (!names.insert(port.name).second) damaged("graph", "two ", what, " are named '", port.name, "'");
    }
  }

  void check_state(const State& state) {
    const std::string where = "state '" + state.name + "'";
    make(state.value, where);
    const TensorType& type = graph_.type(state.value);
    if (type.layout != Layout::Plain) damaged(where, "is not plain");
    if (state.start && (state.start->shape != type.shape || state.start->dtype != type.dtype))
      damaged(where, "is ", to_string(type.dtype), to_string(type.shape), " but starts as ",
              to_string(state.start->dtype), to_string(state.start->shape));
  }

  void check_argument(const Argument& argument) {
    const std::string where = "argument '" + argument.name + "'";
    make(argument.value, where);
    const TensorType& type = graph_.type(argument.value);
    if (!type.shape.empty() || (type.dtype != DType::F32 && type.dtype != DType::I32 && type.dtype != DType::U32))
      damaged(where, "is ", to_string(type.dtype), to_string(type.shape), "; arguments are f32, i32 or u32 of rank 0");
    if (!(argument.least <= argument.most))
      damaged(where, "the range from ", argument.least, " to ", argument.most, " is empty");
  }

  void make(ValueId id, const std::string& where) {
    if (id >= made_.size()) damaged(where, "makes value %", id, ", but the graph has only ", made_.size());
    if (made_[id]) damaged(where, "makes value %", id, ", which exists already");
    made_[id] = true;
    for (int64_t extent : graph_.type(id).shape)
      if (extent < 0) damaged(where, "value %", id, " has the shape ", to_string(graph_.type(id).shape));
  }

  void check_constant(ValueId id) {
    const ValueInfo& value = graph_.value(id);
    const std::string where = "constant '" + value.name + "'";
    make(id, where);
    const Tensor& tensor = *value.constant;
    if (tensor.shape != value.type.shape || !same_kind(tensor.dtype, value.type.dtype))
      damaged(where, "holds ", to_string(tensor.dtype), to_string(tensor.shape), " but its type is ",
              to_string(value.type.dtype), to_string(value.type.shape));
    if (tensor.data.size() != static_cast<size_t>(tensor.size()) * byte_size(tensor.dtype))
      damaged(where, "holds ", tensor.data.size(), " bytes for the shape ", to_string(tensor.shape));
  }

  void check_node(size_t index) {
    const Node& node = graph_.nodes()[index];
    const std::string where = node_name(index);
    std::vector<TensorType> inputs;
    for (ValueId id : node.inputs) {
      if (id == kNoValue) {
        inputs.emplace_back();
        continue;
      }
      if (id >= made_.size()) damaged(where, "reads value %", id, ", which does not exist");
      if (!made_[id]) damaged(where, "reads value %", id, " before it is made");
      inputs.push_back(graph_.type(id));
    }
    const std::vector<TensorType> expected = infer(node, inputs, where);
    if (expected.size() != node.outputs.size())
      damaged(where, "has ", node.outputs.size(), " outputs, expected ", expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      make(node.outputs[i], where);
      const TensorType& found = graph_.type(node.outputs[i]);
      if (found.shape != expected[i].shape || !same_kind(found.dtype, expected[i].dtype))
        damaged(where, "output %", node.outputs[i], " is ", to_string(found.dtype), to_string(found.shape),
                ", but the op makes ", to_string(expected[i].dtype), to_string(expected[i].shape));
    }
  }

  std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs,
                                const std::string& where) const {
    const OpDef* def = find_op(node.op);
    if (!def) damaged(where, "there is no op of this name");
    try {
      return def->infer(node, inputs);
    } catch (const Error& error) {
      damaged(where, error.what());
    }
  }

  void check_outputs() const {
    const auto check = [this](const char* what, const std::string& name, ValueId id) {
      if (id >= made_.size() || !made_[id])
        damaged("graph", what, " '", name, "' is value %", id, ", which nothing makes");
    };
    if (results(graph_).empty()) damaged("graph", "has no output");
    for (const Port& port : graph_.outputs()) check("output", port.name, port.value);
    for (const Port& port : graph_.captures()) check("capture", port.name, port.value);
    for (const State& state : graph_.states()) {
      if (state.next == kNoValue) continue;
      check("the next value of state", state.name, state.next);
      const TensorType &is = graph_.type(state.value), &next = graph_.type(state.next);
      if (next.shape != is.shape || next.dtype != is.dtype)
        damaged("state '" + state.name + "'", "is ", to_string(is.dtype), to_string(is.shape), " but becomes ",
                to_string(next.dtype), to_string(next.shape));
    }
  }

  // Precision assignment stores floats as halves or singles: both are "float" here. Truth values are stored as bytes.
  static bool same_kind(DType a, DType b) {
    return a == b || (is_float(a) && is_float(b)) || (a == DType::U8 && b == DType::Bool);
  }

  const Graph& graph_;
  const std::string& after_;
  std::vector<bool> made_;
};

}  // namespace

void verify(const Graph& graph, const std::string& after) { Verifier(graph, after).run(); }

}  // namespace gyrus
