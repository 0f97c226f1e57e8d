#include "ops/fused.h"

#include <algorithm>

#include "ops/elementwise.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node_with_body(node, inputs, 1, kMaxBodySteps, {});
  if (node.body.empty() && node.results.empty())
    fail(ErrorCode::InvalidGraph, node.op, "has no steps; expected a body of elementwise ops");
  return infer_body(node, inputs);
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  std::vector<RefTensor> operands;
  for (const RefTensor* input : inputs) operands.push_back(*input);
  outputs = reference_body(node, std::move(operands));
}

// Which values of a body with so many operands are its results.
std::vector<ValueId> result_ids(const Node& node, size_t operands) {
  if (!node.results.empty()) return node.results;
  return {static_cast<ValueId>(node.body.empty() ? 0 : operands + node.body.size() - 1)};
}

// Step by step, for targets with fewer bindings than operands. What is made of packed maps is packed.
std::vector<ValueId> decompose(Graph& graph, const Node& node) {
  std::vector<ValueId> values = node.inputs;
  for (Node step : node.body) {
    bool packed = false;
    for (ValueId& id : step.inputs) {
      id = values.at(id);
      packed = packed || graph.type(id).layout == Layout::Packed;
    }
    step.label = node.label;
    values.push_back(graph.add_node(std::move(step)).front());
    TensorType type = graph.type(values.back());
    if (!packed || element_count(type.shape) == 1) continue;
    type.layout = Layout::Packed;
    graph.set_type(values.back(), type);
  }
  std::vector<ValueId> results;
  for (ValueId id : result_ids(node, node.inputs.size())) results.push_back(values.at(id));
  return results;
}

double flops(const Node& node, const std::vector<TensorType>&, const std::vector<TensorType>& outputs) {
  return static_cast<double>(element_count(outputs.front().shape)) * static_cast<double>(node.body.size());
}

void check_step(const Node& node, size_t index, size_t operands) {
  const Node& step = node.body[index];
  const OpDef* def = find_op(step.op);
  if (!def || !def->elementwise)
    fail(ErrorCode::InvalidGraph, node.op, "step ", index, " of the body is '", step.op,
         "', expected an elementwise op");
  if (!step.body.empty() || !step.outputs.empty() || !step.results.empty())
    fail(ErrorCode::InvalidGraph, node.op, "step ", index, " (", step.op, ") has a body or outputs of its own");
  for (ValueId id : step.inputs)
    if (id >= operands + index)
      fail(ErrorCode::InvalidGraph, node.op, "step ", index, " (", step.op, ") reads $", id, ", but only $0 to $",
           operands + index - 1, " exist before it");
}

// What depends on where an element stands must stand where the result does.
void check_places(const Node& node, size_t operands, const std::vector<TensorType>& types, const Shape& result) {
  for (size_t j = 0; j < node.body.size(); ++j)
    if (is_indexed(node.body[j]) && types[operands + j].shape != result)
      fail(ErrorCode::InvalidGraph, node.op, "step ", j, " (", node.body[j].op, ") is ",
           to_string(types[operands + j].shape), " inside a body of ", to_string(result), ": expected one shape");
}

// The types of the results among those of all operands and steps.
std::vector<TensorType> result_types(const Node& node, size_t operands, const std::vector<TensorType>& types) {
  std::vector<TensorType> results;
  for (ValueId id : result_ids(node, operands)) {
    if (id >= types.size())
      fail(ErrorCode::InvalidGraph, node.op, "a result of the body is $", id, ", but only $0 to $", types.size() - 1,
           " exist");
    results.push_back(types[id]);
    if (results.back().shape != results.front().shape)
      fail(ErrorCode::InvalidGraph, node.op, "the results of the body are ", to_string(results.front().shape), " and ",
           to_string(results.back().shape), ": expected one shape");
  }
  return results;
}

}  // namespace

size_t own_inputs(const Node& node) {
  return op(node.op).own_inputs + static_cast<size_t>(node.attrs.integer("arranged", 0));
}

size_t body_operands(const Node& node) {
  const size_t further = node.inputs.size() - std::min(own_inputs(node), node.inputs.size());
  return (op(node.op).body_only ? 0 : 1) + further;
}

std::vector<TensorType> infer_body(const Node& node, const std::vector<TensorType>& operands) {
  if (node.body.size() > kMaxBodySteps)
    fail(ErrorCode::InvalidGraph, node.op, "the body has ", node.body.size(), " steps, at most ", kMaxBodySteps,
         " are possible");
  std::vector<TensorType> types = operands;
  for (size_t j = 0; j < node.body.size(); ++j) {
    check_step(node, j, operands.size());
    std::vector<TensorType> inputs;
    for (ValueId id : node.body[j].inputs) inputs.push_back(types[id]);
    types.push_back(op(node.body[j].op).infer(node.body[j], inputs).front());
  }
  std::vector<TensorType> results = result_types(node, operands.size(), types);
  check_places(node, operands.size(), types, results.front().shape);
  return results;
}

std::vector<TensorType> infer_behind(const Node& node, const TensorType& raw, const std::vector<TensorType>& inputs) {
  std::vector<TensorType> operands = {raw};
  for (size_t i = own_inputs(node); i < inputs.size(); ++i) {
    if (broadcast(node, inputs[i].shape, raw.shape) != raw.shape)
      fail(ErrorCode::InvalidGraph, node.op, "input ", i, " is an operand of the body and is ",
           to_string(inputs[i].shape), ", which does not broadcast to the result ", to_string(raw.shape));
    operands.push_back(inputs[i]);
  }
  std::vector<TensorType> results = infer_body(node, operands);
  if (results.front().shape != raw.shape)
    fail(ErrorCode::InvalidGraph, node.op, "the body makes ", to_string(results.front().shape), " of ",
         to_string(raw.shape), ": expected one shape");
  return results;
}

std::vector<double> eval_body(const Node& node, const std::vector<double>& operands) {
  std::vector<double> values = operands;
  for (const Node& step : node.body) {
    std::vector<double> args;
    for (ValueId id : step.inputs) args.push_back(values.at(id));
    values.push_back(evaluate(*op(step.op).elementwise, step.attrs, args.data()));
  }
  std::vector<double> results;
  for (ValueId id : result_ids(node, operands.size())) results.push_back(values.at(id));
  return results;
}

std::vector<RefTensor> reference_body(const Node& node, std::vector<RefTensor> values) {
  const size_t operands = values.size();
  values.reserve(operands + node.body.size());  // steps hold pointers into it
  for (const Node& step : node.body) {
    std::vector<const RefTensor*> inputs;
    Shape shape;
    for (ValueId id : step.inputs) {
      inputs.push_back(&values[id]);
      shape = broadcast(step, shape, values[id].shape);
    }
    std::vector<RefTensor> result(1);
    result[0].data.resize(static_cast<size_t>(element_count(shape)));
    result[0].shape = std::move(shape);
    op(step.op).reference(step, inputs, result);
    values.push_back(std::move(result[0]));
  }
  std::vector<RefTensor> results;
  for (ValueId id : result_ids(node, operands)) results.push_back(values[id]);
  return results;
}

std::vector<RefTensor> reference_behind(const Node& node, RefTensor raw, const std::vector<const RefTensor*>& inputs) {
  std::vector<RefTensor> operands;
  operands.push_back(std::move(raw));
  for (size_t i = own_inputs(node); i < inputs.size(); ++i) operands.push_back(*inputs[i]);
  return reference_body(node, std::move(operands));
}

bool is_indexed(const Node& node) {
  const OpDef& def = op(node.op);
  return (def.elementwise && def.elementwise->indexed) || std::any_of(node.body.begin(), node.body.end(), is_indexed);
}

bool body_keeps_zero(const Node& node) {
  if (is_indexed(node)) return false;
  const std::vector<double> results = eval_body(node, std::vector<double>(std::max<size_t>(1, body_operands(node)), 0));
  return std::all_of(results.begin(), results.end(), [](double value) { return value == 0; });
}

std::vector<Node> body_of(const Node& node) {
  if (op(node.op).body_only) return node.body;
  Node step;
  step.op = node.op;
  step.attrs = node.attrs;
  step.label = node.label;
  for (size_t i = 0; i < node.inputs.size(); ++i) step.inputs.push_back(static_cast<ValueId>(i));
  return {step};
}

BodyText body_wgsl(const Node& node, const std::vector<std::string>& operands, WgslType type) {
  return body_wgsl(node, operands, std::vector<WgslType>(operands.size(), type));
}

BodyText body_wgsl(const Node& node, const std::vector<std::string>& operands, const std::vector<WgslType>& types,
                   const std::string& index) {
  std::vector<std::string> names = operands;
  std::vector<WgslType> all_types = types;
  BodyText text;
  for (size_t j = 0; j < node.body.size(); ++j) {
    const Node& step = node.body[j];
    const Elementwise& row = *op(step.op).elementwise;
    std::vector<std::string> args;
    for (ValueId id : step.inputs) args.push_back(names.at(id));
    const WgslType type = all_types.at(step.inputs[row.chooses ? 1 : 0]);
    names.push_back(cat("step", j));
    all_types.push_back(row_type(row, step.attrs, type));
    text.statements += cat("  let ", names.back(), " = ", row_wgsl(row, step.attrs, args, type, index), ";\n");
  }
  for (ValueId id : result_ids(node, operands.size())) {
    text.results.push_back(names.at(id));
    text.types.push_back(all_types.at(id));
  }
  return text;
}

const OpDef kFused = {
    .name = "fused",
    .infer = infer,
    .reference = reference,
    .takes_body = [](const Node&) { return true; },
    .body_only = true,
    .layout = LayoutRule::Follows,
    .in_place = InPlace::Any,
    .decompose = decompose,
    .has_kernel = true,
    .flops = flops,
};

}  // namespace gyrus
