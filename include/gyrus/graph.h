#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gyrus/attrs.h"
#include "gyrus/tensor.h"

// The intermediate representation: a list of nodes in the order of execution over single-assignment values with static
// shapes. Passes make new graphs from old ones; constants are shared, so copying a graph is cheap.

namespace gyrus {

using ValueId = uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};

// How a value [N, C, spatial…] lies in memory. Plain: row-major elements. Packed: channels in quads,
// [N, D, ceil(C/4), H…, 4] for spatial extents D, H…: all channels of a plane lie together; the lanes beyond C hold
// zeros.
enum class Layout : uint8_t { Plain, Packed };

struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  Layout layout = Layout::Plain;
  bool operator==(const TensorType&) const = default;
};

struct ValueInfo {
  TensorType type;
  std::string name;                        // unique where given; constants carry the parameter's name
  std::shared_ptr<const Tensor> constant;  // set for constants
};

struct Node {
  std::string op;
  Attrs attrs;
  std::vector<ValueId> inputs;  // kNoValue for an optional operand that is absent
  std::vector<ValueId> outputs;
  // Elementwise steps that run inside this node. Their `inputs` count: 0 … k-1 the k operands of the body (for op
  // "fused" the node's inputs; for a node with an epilogue, the one raw result), k+j the result of step j.
  // `outputs` stay empty; the last step is the result. See body_operands() in ops/fused.h.
  std::vector<Node> body;
  std::vector<ValueId> results;  // operands or steps of the body that are its results; empty: the last step
  std::string label;             // where it came from, e.g. "layer3.conv"; shown in plans and errors
};

struct Port {
  std::string name;
  ValueId value = kNoValue;
};

// A value that is kept from run to run: parameters, moments, caches. Plain.
struct State {
  std::string name;
  ValueId value = kNoValue;             // as it is when a run begins
  std::shared_ptr<const Tensor> start;  // before the first run; null: zeros
  ValueId next = kNoValue;              // what it is after a run; kNoValue where nothing updates it
};

// A scalar that the caller gives for each run, from `least` to `most`.
struct Argument {
  std::string name;
  ValueId value = kNoValue;
  double least = 0;
  double most = 0;
};

class Graph;

// A value of a graph, as the functions of gyrus/ops.h take and give it. Refers to the Graph, which must stay where it
// is while it is built. One made without a graph stands for an operand that is absent.
class Value {
 public:
  Value() = default;
  Value(Graph& graph, ValueId id) : graph_(&graph), id_(id) {}

  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  ValueId id() const { return id_; }
  DType dtype() const;
  Shape shape() const;

 private:
  Graph* graph_ = nullptr;
  ValueId id_ = kNoValue;
};

// A network in the making, and made. Whatever is wrong with it is refused where it is added, with InvalidGraph or
// Unsupported and the name of the op.
class Graph {
 public:
  // As people build one, with gyrus/ops.h. Names are unique within a graph.
  Value input(const std::string& name, DType dtype, const Shape& shape);
  Value constant(Tensor tensor, const std::string& name = {});
  // A state that is trained or replaced, and starts from this.
  Value parameter(const std::string& name, Tensor start);
  // A state that starts from zeros.
  Value state(const std::string& name, DType dtype, const Shape& shape);
  Value argument(const std::string& name, DType dtype, double least, double most);
  void update(Value state, Value next);
  void output(const std::string& name, Value value);
  void capture(const std::string& name, Value value);

  // Where the nodes that follow belong, in plans, profiles and errors: "layer3.conv".
  void set_label(std::string label) { label_ = std::move(label); }
  const std::string& label() const { return label_; }

  // The same by number, as importers and passes do it.
  ValueId add_input(const std::string& name, TensorType type);
  ValueId add_constant(const std::string& name, Tensor tensor);
  ValueId add_constant(const std::string& name, std::shared_ptr<const Tensor> tensor);
  // Where `start` is given, it has the state's type.
  ValueId add_state(const std::string& name, TensorType type, std::shared_ptr<const Tensor> start = {});
  // After a run the state is `next`, a value of the same type; until then readers of `state` see what it was before.
  void update(ValueId state, ValueId next);
  // The same instead of what it would have become; kNoValue: it stays as it is.
  void set_next(ValueId state, ValueId next);
  // A value of rank 0 and type F32, I32 or U32.
  ValueId add_argument(const std::string& name, DType dtype, double least, double most);
  // Appends a node; output types come from the op's shape rule. Throws InvalidGraph where the rule refuses.
  ValueId add(const std::string& op, const std::vector<ValueId>& inputs, Attrs attrs = {}, std::string label = {});
  // Appends a node as given (body, several outputs); its outputs are made anew. Returns the output ids.
  std::vector<ValueId> add_node(Node node);
  void add_output(const std::string& name, ValueId value);
  // A value to look at: given to the caller where a run asks for it. No pass fuses it away.
  void add_capture(const std::string& name, ValueId value);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const std::vector<Port>& captures() const { return captures_; }
  const std::vector<State>& states() const { return states_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  size_t value_count() const { return values_.size(); }
  const ValueInfo& value(ValueId id) const { return values_.at(id); }
  const TensorType& type(ValueId id) const { return values_.at(id).type; }
  bool is_constant(ValueId id) const { return values_.at(id).constant != nullptr; }
  const Tensor& constant(ValueId id) const;
  void set_type(ValueId id, TensorType type) { values_.at(id).type = std::move(type); }
  void set_name(ValueId id, std::string name) { values_.at(id).name = std::move(name); }
  void set_attr(size_t node, const std::string& name, Attr value) { nodes_.at(node).attrs.set(name, std::move(value)); }

 private:
  ValueId new_value(TensorType type, std::string name);
  ValueId id_of(Value value, const std::string& subject) const;
  std::string label_;
  std::vector<ValueInfo> values_;
  std::vector<Node> nodes_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::vector<Port> captures_;
  std::vector<State> states_;
  std::vector<Argument> arguments_;
};

// The same nodes over inputs of other shapes; inputs that are not named keep theirs. Throws InvalidInput for a name
// that is no input, InvalidGraph where an op refuses its operands.
Graph with_shapes(const Graph& graph, const std::map<std::string, Shape>& shapes);

}  // namespace gyrus
