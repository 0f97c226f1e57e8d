#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "graph/attrs.h"

// The intermediate representation: a list of nodes in the order of execution over single-assignment values with static
// shapes. Passes make new graphs from old ones; constants are shared, so copying a graph is cheap.

namespace gyrus {

using ValueId = uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};

// How a value [N, C, spatial…] lies in memory. Plain: row-major elements. Packed: channels in quads,
// [N, ceil(C/4), spatial…, 4], the lanes beyond C hold zeros.
enum class Layout : uint8_t { Plain, Packed };

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  Layout layout = Layout::Plain;
  bool operator==(const TensorType&) const = default;
};

struct Value {
  TensorType type;
  std::string name;                        // unique where given; constants carry the parameter's name
  std::shared_ptr<const Tensor> constant;  // set for constants
};

struct Node {
  std::string op;
  Attrs attrs;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  // Elementwise steps that run inside this node. Their `inputs` count: 0 … k-1 the k operands of the body (for op
  // "fused" the node's inputs; for a node with an epilogue, the one raw result), k+j the result of step j.
  // `outputs` stay empty; the last step is the result. See body_operands() in ops/fused.h.
  std::vector<Node> body;
  std::string label;  // where it came from, e.g. "layer3.conv"; shown in plans and errors
};

struct Port {
  std::string name;
  ValueId value = kNoValue;
};

class Graph {
 public:
  ValueId add_input(const std::string& name, TensorType type);
  ValueId add_constant(const std::string& name, Tensor tensor);
  ValueId add_constant(const std::string& name, std::shared_ptr<const Tensor> tensor);
  // Appends a node; output types come from the op's shape rule. Throws InvalidGraph where the rule refuses.
  ValueId add(const std::string& op, const std::vector<ValueId>& inputs, Attrs attrs = {}, std::string label = {});
  // Appends a node as given (body, several outputs); its outputs are made anew. Returns the output ids.
  std::vector<ValueId> add_node(Node node);
  void add_output(const std::string& name, ValueId value);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  size_t value_count() const { return values_.size(); }
  const Value& value(ValueId id) const { return values_.at(id); }
  const TensorType& type(ValueId id) const { return values_.at(id).type; }
  bool is_constant(ValueId id) const { return values_.at(id).constant != nullptr; }
  const Tensor& constant(ValueId id) const;
  void set_type(ValueId id, TensorType type) { values_.at(id).type = std::move(type); }
  void set_name(ValueId id, std::string name) { values_.at(id).name = std::move(name); }

 private:
  ValueId new_value(TensorType type, std::string name);
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
};

// The graph as text, one node a line: "%3:f32[1,5,8,8,8] = conv(%0, @w, @b) {dilation=[1,1,1]}".
std::string print(const Graph& graph);

// Throws InvalidGraph naming the node where an id is used before it is made, a type contradicts the op's shape rule,
// an op is unknown, an output is missing or a name is used twice. `after` names the pass that just ran.
void verify(const Graph& graph, const std::string& after = "import");

// How often each value is read (outputs of the graph count).
std::vector<uint32_t> use_counts(const Graph& graph);
// For each value the index of the node that makes it, or -1.
std::vector<int64_t> producers(const Graph& graph);
// A copy without nodes and constants whose results nobody reads. Inputs stay.
Graph without_dead_nodes(const Graph& graph);

}  // namespace gyrus
