#include "import/onnx_import.h"

#include <algorithm>
#include <set>

#include "core/tensor.h"
#include "graph/graph.h"
#include "import/onnx_ops.h"

namespace gyrus::onnx {

// Names and what they stand for; a graph inside a node sees those around it.
struct Scope {
  const Scope* around = nullptr;
  const Opsets* opsets = nullptr;
  std::map<std::string, Val> values{};
  std::set<std::string> unknown{};                     // results of nodes that could not be imported
  std::map<std::string, AttributeProto> attributes{};  // of the function whose body this is
  int depth = 0;
  std::string prefix{};  // before the names of nodes

  const Val* find(const std::string& name) const {
    for (const Scope* s = this; s; s = s->around)
      if (const auto it = s->values.find(name); it != s->values.end()) return &it->second;
    return nullptr;
  }
  bool is_unknown(const std::string& name) const {
    for (const Scope* s = this; s; s = s->around) {
      if (s->values.count(name) != 0) return false;
      if (s->unknown.count(name) != 0) return true;
    }
    return false;
  }
};

namespace {

constexpr int kDeepest = 32;          // functions and graphs inside one another
constexpr size_t kMostNodes = 40000;  // that are imported in all; those of loops, and their bodies, count each time

// A name from the file on one line.
std::string printable(std::string name) {
  for (char& c : name)
    if (is_control(c)) c = '?';
  return name;
}

std::string shape_text(const ValueProto& value) {
  std::string text = to_string(value.type) + "[";
  for (size_t i = 0; i < value.dims.size(); ++i)
    text += cat(i ? "," : "", value.dims[i].extent >= 0    ? std::to_string(value.dims[i].extent)
                              : value.dims[i].name.empty() ? "?"
                                                           : printable(value.dims[i].name));
  return value.has_shape ? text + "]" : to_string(value.type) + " of any shape";
}

// One thing that stands in the way of a node, and which nodes.
struct Refusal {
  std::string op, reason, first;
  size_t count = 0;
};

}  // namespace

class Importer {
 public:
  Importer(const ModelProto& model, const ImportOptions& options) : model_(model), options_(options) {
    for (const FunctionProto& f : model.functions) functions_[{f.domain, f.name, f.overload}] = &f;
  }

  Imported run() {
    Scope scope;
    scope.opsets = &model_.opsets;
    if (model_.graph.sparse_initializers > 0) refuse("sparse initializer", model_.graph.name, "is not read");
    add_initializers(model_.graph, scope);
    add_inputs(scope);
    run_nodes(model_.graph.nodes, scope);
    throw_refusals();
    add_outputs(scope);
    add_captures(scope);
    result_.graph.set_label({});
    result_.graph = without_dead_nodes(result_.graph);
    verify(result_.graph);
    return std::move(result_);
  }

  const ImportOptions& options() const { return options_; }
  std::map<ValueId, Dequantized>& dequantized() { return dequantized_; }

  Vals run_graph(const GraphProto& graph, const Vals& inputs, const Scope& around, const std::string& prefix) {
    count();
    if (around.depth >= kDeepest) unsupported("graphs inside graphs, too deep");
    Scope scope;
    scope.around = &around;
    scope.opsets = around.opsets;
    scope.attributes = around.attributes;
    scope.depth = around.depth + 1;
    scope.prefix = prefix;
    add_initializers(graph, scope);
    for (size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i)
      scope.values[graph.inputs[i].name] = inputs[i];
    const size_t before = refusals_.size();
    run_nodes(graph.nodes, scope);
    Vals outputs;
    for (const ValueProto& output : graph.outputs) outputs.push_back(result_of(output.name, scope, before));
    return outputs;
  }

 private:
  void refuse(const std::string& op, const std::string& node, const std::string& reason) {
    for (Refusal& r : refusals_)
      if (r.op == op && r.reason == reason) {
        ++r.count;
        return;
      }
    refusals_.push_back({op, reason, node, 1});
  }

  void throw_refusals() const {
    if (refusals_.empty()) return;
    std::string text;
    for (const Refusal& r : refusals_) {
      text += cat(text.empty() ? "" : "; ", r.op, r.first.empty() ? "" : " " + in_quotes(r.first));
      if (r.count > 1) text += cat(" and ", r.count - 1, " more");
      text += ": " + r.reason;
    }
    const bool broken = code_ == ErrorCode::InvalidModel;
    fail(code_, options_.subject, broken ? "the file contradicts itself: " : "not supported: ", text);
  }

  // Of the file's own graph: floats, but for what ops want to know before they run and statistics of norms.
  std::set<std::string> parameters(const GraphProto& graph) const {
    std::set<std::string> names;
    if (!options_.parameters || &graph != &model_.graph) return names;
    for (const TensorProto& proto : graph.initializers)
      if (proto.type == Elem::F32 && !proto.dims.empty()) names.insert(proto.name);
    for (const NodeProto& node : graph.nodes)
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const bool statistics = node.type == "BatchNormalization" && i > 2;
        if (statistics || node.type == "Resize" || node.type == "Upsample") names.erase(node.inputs[i]);
      }
    return names;
  }

  // Weights keep their names: a training finds them by these.
  ValueId initial(const GraphProto& graph, const std::string& name, Tensor tensor, bool trained) {
    const bool weight = &graph == &model_.graph && tensor.dtype == DType::F32 && !tensor.shape.empty() &&
                        is_good_name(name) && named_.insert(name).second;
    if (!trained) return result_.graph.add_constant(weight ? name : std::string(), std::move(tensor));
    const TensorType type{tensor.dtype, tensor.shape};
    return result_.graph.add_state(name, type, std::make_shared<Tensor>(std::move(tensor)));
  }

  void add_initializers(const GraphProto& graph, Scope& scope) {
    const std::set<std::string> trained = parameters(graph);
    for (const TensorProto& proto : graph.initializers) {
      try {
        Tensor tensor = to_tensor(proto, options_.subject, options_.external);
        const ValueId id = initial(graph, proto.name, std::move(tensor), trained.count(proto.name) != 0);
        scope.values[proto.name] = {&result_.graph, id, proto.type};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Unsupported) throw;
        refuse("initializer", proto.name, error.what());
        scope.unknown.insert(proto.name);
      }
    }
  }

  void add_inputs(Scope& scope) {
    std::set<std::string> names;
    const std::vector<DeclaredInput> inputs = declared_inputs(model_);
    for (const DeclaredInput& input : inputs) names.insert(input.name);
    for (const auto& [name, shape] : options_.shapes)
      if (names.count(name) == 0) no_input(name, names);
    for (const auto& [name, value] : options_.bound)
      if (names.count(name) == 0) no_input(name, names);
    for (const DeclaredInput& input : inputs) {
      try {
        add_input(input, scope);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Unsupported) throw;
        refuse("input", input.name, error.what());
        scope.unknown.insert(input.name);
      }
    }
  }

  [[noreturn]] void no_input(const std::string& name, const std::set<std::string>& names) const {
    std::string known;
    for (const std::string& n : names) known += (known.empty() ? "" : ", ") + printable(n);
    fail(ErrorCode::InvalidInput, options_.subject, "has no input ", in_quotes(name), "; it has: ", known);
  }

  void add_input(const DeclaredInput& input, Scope& scope) {
    if (!is_good_name(input.name)) fail(ErrorCode::InvalidModel, options_.subject, "an input has no usable name");
    if (const auto bound = options_.bound.find(input.name); bound != options_.bound.end()) {
      const DType want = stored_as(input.elem, input.name);
      if (bound->second.dtype != want)
        fail(ErrorCode::InvalidInput, input.name, "bound as ", gyrus::to_string(bound->second.dtype), ", expected ",
             gyrus::to_string(want));
      scope.values[input.name] = constant(result_.graph, bound->second, input.elem);
      return;
    }
    const DType dtype = stored_as(input.elem, input.name);
    Shape shape = input.shape;
    if (const auto given = options_.shapes.find(input.name); given != options_.shapes.end()) {
      // Some exporters declare extents that their networks do not need; ops refuse what they cannot take.
      if (shape.size() != given->second.size() && !shape.empty())
        fail(ErrorCode::InvalidInput, input.name, "has the shape ", gyrus::to_string(given->second),
             ", the model takes ", input.text);
      shape = given->second;
    } else if (!input.known) {
      fail(ErrorCode::InvalidInput, input.name, "is ", input.text, " in ", options_.subject,
           ": give the input or say its shape");
    }
    for (const int64_t extent : shape)
      if (extent > (int64_t{1} << 31)) unsupported(cat("has the shape ", gyrus::to_string(shape)));
    const ValueId id = result_.graph.add_input(input.name, {dtype, shape});
    result_.inputs.push_back({input.name, input.elem, dtype, shape});
    scope.values[input.name] = {&result_.graph, id, input.elem};
  }

  void run_nodes(const std::vector<NodeProto>& nodes, Scope& scope) {
    for (const NodeProto& node : nodes) {
      count();
      run_node(node, scope);
    }
  }

  void count() {
    if (++imported_ > kMostNodes)
      fail(ErrorCode::Unsupported, options_.subject, "loops make more than ", kMostNodes, " nodes");
  }

  static std::string name_of(const NodeProto& node, const Scope& scope) {
    if (!node.name.empty()) return scope.prefix + printable(node.name);
    for (const std::string& output : node.outputs)
      if (!output.empty()) return scope.prefix + printable(output);
    return scope.prefix;
  }

  static std::string op_name(const NodeProto& node) {
    return printable(node.domain.empty() ? node.type : node.domain + "." + node.type);
  }

  void run_node(const NodeProto& original, Scope& scope) {
    const std::string name = name_of(original, scope);
    const NodeProto node = with_references(original, scope);
    const auto fail_node = [&](const std::string& reason, ErrorCode code) {
      if (refusals_.empty()) code_ = code;
      if (code == ErrorCode::Unsupported) code_ = code;
      refuse(op_name(node), name, reason);
      for (const std::string& output : node.outputs) scope.unknown.insert(output);
    };
    try {
      Vals inputs;
      bool unknown = false;
      for (const std::string& input : node.inputs) {
        const Val* value = input.empty() ? nullptr : scope.find(input);
        if (!value && !input.empty()) {
          if (!scope.is_unknown(input)) invalid(cat("reads ", in_quotes(input), ", which nothing makes"));
          unknown = true;
        }
        inputs.push_back(value ? *value : Val{});
      }
      while (!inputs.empty() && !inputs.back() && !unknown) inputs.pop_back();
      const Vals outputs = import_node(node, scope, name, std::move(inputs), unknown);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        if (i < outputs.size() && outputs[i])
          set(node.outputs[i], outputs[i], scope);
        else
          scope.unknown.insert(node.outputs[i]);
      }
      if (!unknown && outputs.size() < wanted(node))
        invalid(cat("has ", wanted(node), " outputs, ", outputs.size(), " are known"));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::InvalidInput || error.code() == ErrorCode::Io) {
        fail_node(error.what(), ErrorCode::InvalidModel);
        return;
      }
      fail_node(error.what(), error.code() == ErrorCode::InvalidGraph ? ErrorCode::InvalidModel : error.code());
    } catch (const std::out_of_range&) {
      fail_node("an attribute or operand has fewer elements than it must", ErrorCode::InvalidModel);
    } catch (const std::length_error&) {
      fail_node("a size is beyond reason", ErrorCode::InvalidModel);
    }
  }

  static size_t wanted(const NodeProto& node) {
    size_t count = node.outputs.size();
    while (count > 0 && node.outputs[count - 1].empty()) --count;
    return count;
  }

  void set(const std::string& name, Val value, Scope& scope) {
    scope.values[name] = value;
    if (scope.depth == 0 && options_.capture_all) made_.push_back(name);
  }

  // Attributes that name one of the function around them get its value.
  static NodeProto with_references(const NodeProto& node, const Scope& scope) {
    NodeProto result = node;
    std::vector<AttributeProto> attributes;
    for (AttributeProto& a : result.attributes) {
      if (a.ref.empty()) {
        attributes.push_back(std::move(a));
        continue;
      }
      const auto found = scope.attributes.find(a.ref);
      if (found == scope.attributes.end()) continue;  // absent there, absent here
      AttributeProto given = found->second;
      given.name = a.name;
      attributes.push_back(std::move(given));
    }
    result.attributes = std::move(attributes);
    return result;
  }

  Vals import_node(const NodeProto& node, Scope& scope, const std::string& name, Vals inputs, bool unknown) {
    if (const auto function = functions_.find({node.domain, node.type, node.overload}); function != functions_.end())
      return unknown ? Vals{} : run_function(*function->second, node, inputs, scope, name);
    const OpTable* table = node.domain.empty()              ? &standard_ops()
                           : node.domain == "com.microsoft" ? &microsoft_ops()
                                                            : nullptr;
    const auto entry = table ? table->find(node.type) : OpTable::const_iterator{};
    if (!table || entry == table->end()) unsupported("gyrus does not have this op");
    if (unknown) return {};
    const auto opset = scope.opsets->find(node.domain);
    result_.graph.set_label(name);
    Ctx context(*this, scope, result_.graph, node, opset == scope.opsets->end() ? 1 : opset->second, std::move(inputs));
    return entry->second(context);
  }

  Vals run_function(const FunctionProto& function, const NodeProto& node, const Vals& inputs, const Scope& around,
                    const std::string& name) {
    if (around.depth >= kDeepest) unsupported("functions call one another, too deep");
    Scope scope;
    scope.opsets = function.opsets.empty() ? around.opsets : &function.opsets;
    scope.depth = around.depth + 1;
    scope.prefix = name + "/";
    for (const AttributeProto& a : function.defaults) scope.attributes[a.name] = a;
    for (const AttributeProto& a : node.attributes) scope.attributes[a.name] = a;
    for (size_t i = 0; i < function.inputs.size(); ++i)
      if (i < inputs.size() && inputs[i])
        scope.values[function.inputs[i]] = inputs[i];
      else
        absent(function.inputs[i], scope);
    const size_t before = refusals_.size();
    run_nodes(without_absent(function.nodes, scope), scope);
    Vals outputs;
    for (const std::string& output : function.outputs) outputs.push_back(result_of(output, scope, before));
    return outputs;
  }

  static void absent(const std::string& name, Scope& scope) { scope.unknown.insert(name); }

  // Operands that stand for absent ones of the function are absent themselves.
  static std::vector<NodeProto> without_absent(std::vector<NodeProto> nodes, Scope& scope) {
    const std::set<std::string> names = scope.unknown;
    scope.unknown.clear();
    for (NodeProto& node : nodes)
      for (std::string& input : node.inputs)
        if (names.count(input) != 0) input.clear();
    return nodes;
  }

  Val result_of(const std::string& name, const Scope& scope, size_t refusals) const {
    if (const Val* value = scope.find(name)) return *value;
    if (refusals_.size() == refusals && !scope.is_unknown(name))
      invalid(cat("nothing makes its output ", in_quotes(name)));
    return {};
  }

  void add_outputs(const Scope& scope) {
    for (const ValueProto& output : model_.graph.outputs) {
      if (!is_good_name(output.name)) fail(ErrorCode::InvalidModel, options_.subject, "an output has no usable name");
      const Val* value = scope.find(output.name);
      if (!value) fail(ErrorCode::InvalidModel, options_.subject, "nothing makes the output ", in_quotes(output.name));
      result_.graph.add_output(output.name, value->id);
      result_.outputs.push_back({output.name, value->elem, value->dtype(), value->shape()});
    }
    if (model_.graph.outputs.empty()) fail(ErrorCode::InvalidModel, options_.subject, "has no output");
  }

  void add_captures(const Scope& scope) {
    std::set<std::string> taken;
    for (const OnnxPort& port : result_.outputs) taken.insert(port.name);
    std::vector<std::string> names = options_.captures;
    names.insert(names.end(), made_.begin(), made_.end());
    for (const std::string& name : names) {
      const Val* value = scope.find(name);
      if (!value)
        fail(ErrorCode::InvalidInput, options_.subject, "has no value ", in_quotes(name), " that could be captured");
      if (!taken.insert(name).second || value->is_constant() || !is_good_name(name)) continue;
      result_.graph.add_capture(name, value->id);
      result_.captures.push_back({name, value->elem, value->dtype(), value->shape()});
    }
  }

  const ModelProto& model_;
  const ImportOptions& options_;
  std::set<std::string> named_;  // weights that have their names
  Imported result_;
  std::map<std::tuple<std::string, std::string, std::string>, const FunctionProto*> functions_;
  std::vector<Refusal> refusals_;
  std::vector<std::string> made_;
  std::map<ValueId, Dequantized> dequantized_;
  size_t imported_ = 0;
  ErrorCode code_ = ErrorCode::Unsupported;
};

Val Ctx::in(size_t i) const {
  if (!has(i)) invalid(cat("operand ", i, " is missing"));
  return inputs_[i];
}

bool Ctx::may_pack() const {
  static const bool known = find_op("block_matmul") && find_op("block_rows");
  return known && !importer_.options().parameters;
}

void Ctx::remember(Val value, Dequantized from) const {
  if (may_pack() && from.values.is_constant() && from.values.rank() == 2)
    importer_.dequantized()[value.id] = std::move(from);
}

const Dequantized* Ctx::dequantized(size_t i) const {
  const auto found = importer_.dequantized().find(in(i).id);
  return found == importer_.dequantized().end() ? nullptr : &found->second;
}

std::optional<PackedMatrix> Ctx::packed(size_t i, size_t rows_axis) const {
  const Dequantized* const from = dequantized(i);
  return from ? from->matrix(rows_axis) : std::nullopt;
}

const Tensor& Ctx::known(size_t i) const {
  const Val value = in(i);
  if (!value.is_constant())
    unsupported(cat("the value of ", in_quotes(node_.inputs.at(i)),
                    " decides shapes or positions and must be known before; bind it"));
  return value.constant();
}

double Ctx::known_number(size_t i) const {
  const Tensor& tensor = known(i);
  if (tensor.size() != 1) invalid(cat("operand ", i, " is ", gyrus::to_string(tensor.shape), ", expected one number"));
  return get(tensor, 0);
}

const AttributeProto* Ctx::find(std::string_view name) const {
  for (const AttributeProto& a : node_.attributes)
    if (a.name == name) return &a;
  return nullptr;
}

int64_t Ctx::integer(std::string_view name, int64_t fallback) const {
  const AttributeProto* a = find(name);
  return a ? a->i : fallback;
}

int64_t Ctx::integer(std::string_view name) const {
  if (!find(name)) invalid(cat("attribute ", name, " is missing"));
  return find(name)->i;
}

double Ctx::number(std::string_view name, double fallback) const {
  const AttributeProto* a = find(name);
  return a ? static_cast<double>(a->f) : fallback;
}

std::string Ctx::text(std::string_view name, const std::string& fallback) const {
  const AttributeProto* a = find(name);
  return a ? a->s : fallback;
}

Ints Ctx::list(std::string_view name, const Ints& fallback) const {
  const AttributeProto* a = find(name);
  return a ? a->ints : fallback;
}

std::vector<double> Ctx::numbers(std::string_view name) const {
  const AttributeProto* a = find(name);
  return a ? std::vector<double>(a->floats.begin(), a->floats.end()) : std::vector<double>{};
}

std::vector<std::string> Ctx::texts(std::string_view name) const {
  const AttributeProto* a = find(name);
  return a ? a->strings : std::vector<std::string>{};
}

Tensor Ctx::tensor(std::string_view name, Elem& elem) const {
  const AttributeProto* a = find(name);
  if (!a || !a->t) invalid(cat("attribute ", name, " is missing"));
  elem = a->t->type;
  return to_tensor(*a->t, importer_.options().subject, importer_.options().external);
}

std::optional<Ints> Ctx::list_or_input(std::string_view name, size_t i) const {
  if (has(i)) return known_ints(i);
  if (const AttributeProto* a = find(name)) return a->ints;
  return std::nullopt;
}

Vals Ctx::run(std::string_view graph_attribute, const Vals& values) const {
  const AttributeProto* a = find(graph_attribute);
  if (!a || !a->g) invalid(cat("attribute ", graph_attribute, " is missing"));
  return importer_.run_graph(*a->g, values, scope_, graph_.label() + "/");
}

const OpTable& standard_ops() {
  static const OpTable table = [] {
    OpTable t;
    for (const auto add : {add_math_ops, add_shape_ops, add_index_ops, add_reduce_ops, add_conv_ops, add_pool_ops,
                           add_norm_ops, add_product_ops, add_attention_ops, add_recurrent_ops, add_resize_ops,
                           add_quantized_ops, add_control_ops, add_signal_ops, add_sampling_ops, add_microsoft_twins})
      add(t);
    return t;
  }();
  return table;
}

std::vector<DeclaredInput> declared_inputs(const ModelProto& model) {
  std::set<std::string> initial;
  for (const TensorProto& t : model.graph.initializers) initial.insert(t.name);
  std::vector<DeclaredInput> inputs;
  for (const ValueProto& value : model.graph.inputs) {
    if (initial.count(value.name) != 0) continue;
    DeclaredInput input{value.name, value.type, value.has_shape, {}, shape_text(value)};
    if (!value.is_tensor) input.text = value.kind.empty() ? "of no type" : value.kind, input.elem = Elem::Undefined;
    for (const Dim& dim : value.dims) {
      input.shape.push_back(std::max<int64_t>(dim.extent, -1));
      input.known = input.known && dim.extent >= 0;
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Imported import_model(const ModelProto& model, const ImportOptions& options) {
  begin_folding();
  return Importer(model, options).run();
}

}  // namespace gyrus::onnx
