#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx_build.h"
#include "import/onnx_packed.h"

// The table of ONNX's ops: each is a function that builds the nodes of gyrus for one node of the file.

namespace gyrus::onnx {

class Importer;
struct Scope;

// One node of the file with its operands, as an op's function sees it.
class Ctx {
 public:
  Ctx(Importer& importer, Scope& scope, Graph& graph, const NodeProto& node, int64_t opset, Vals inputs)
      : importer_(importer), scope_(scope), graph_(graph), node_(node), opset_(opset), inputs_(std::move(inputs)) {}

  Graph& graph() const { return graph_; }
  const NodeProto& node() const { return node_; }
  int64_t opset() const { return opset_; }
  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return node_.outputs.size(); }
  bool wants(size_t output) const { return output < node_.outputs.size() && !node_.outputs[output].empty(); }

  bool has(size_t i) const { return i < inputs_.size() && inputs_[i]; }
  Val in(size_t i) const;  // throws InvalidModel where it is absent
  Val opt(size_t i) const { return has(i) ? inputs_[i] : Val{}; }
  const Vals& all() const { return inputs_; }

  // The value of an operand that decides shapes; throws Unsupported unless it is known.
  const Tensor& known(size_t i) const;
  Ints known_ints(size_t i) const { return integers(known(i)); }
  double known_number(size_t i) const;

  bool has_attr(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t fallback) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name, double fallback) const;
  std::string text(std::string_view name, const std::string& fallback) const;
  Ints list(std::string_view name, const Ints& fallback = {}) const;
  std::vector<double> numbers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  const AttributeProto* find(std::string_view name) const;
  Tensor tensor(std::string_view name, Elem& elem) const;
  // The list as an attribute, before the opset in which it became operand i; nothing where it is absent.
  std::optional<Ints> list_or_input(std::string_view name, size_t i) const;

  // Whether weights may stay packed: not where they are trained, nor in a program without the ops.
  bool may_pack() const;
  // That `value` are integers with scales, which products and gathers may read instead.
  void remember(Val value, Dequantized from) const;
  const Dequantized* dequantized(size_t i) const;  // of operand i, or null
  // Operand i, rank 2, packed by rows along an axis of it; nothing where it has no such form.
  std::optional<PackedMatrix> packed(size_t i, size_t rows_axis) const;

  // The graph of an attribute, its inputs being these values.
  Vals run(std::string_view graph_attribute, const Vals& values) const;

 private:
  Importer& importer_;
  Scope& scope_;
  Graph& graph_;
  const NodeProto& node_;
  int64_t opset_;
  Vals inputs_;
};

using OpImport = Vals (*)(Ctx& c);
using OpTable = std::map<std::string, OpImport, std::less<>>;

// Ops of the standard domain, and of com.microsoft.
const OpTable& standard_ops();
const OpTable& microsoft_ops();

void add_math_ops(OpTable& table);
void add_shape_ops(OpTable& table);
void add_index_ops(OpTable& table);
void add_reduce_ops(OpTable& table);
void add_conv_ops(OpTable& table);
void add_pool_ops(OpTable& table);
void add_norm_ops(OpTable& table);
void add_product_ops(OpTable& table);
void add_attention_ops(OpTable& table);
void add_recurrent_ops(OpTable& table);
void add_resize_ops(OpTable& table);
void add_quantized_ops(OpTable& table);
void add_control_ops(OpTable& table);
void add_signal_ops(OpTable& table);
void add_sampling_ops(OpTable& table);
void add_few_bits_ops(OpTable& table);
void add_microsoft_twins(OpTable& table);
void add_microsoft_quantized_ops(OpTable& table);

}  // namespace gyrus::onnx
