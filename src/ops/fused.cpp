#include "ops/fused.h"

#include <array>

#include "ops/elementwise.h"

namespace gyrus {
namespace {

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  check_node_with_body(node, inputs, 1, kMaxBodySteps, {});
  if (node.body.empty()) fail(ErrorCode::InvalidGraph, node.op, "has no steps; expected a body of elementwise ops");
  return {infer_body(node, inputs)};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  std::vector<RefTensor> operands;
  for (const RefTensor* input : inputs) operands.push_back(*input);
  outputs.front() = reference_body(node, std::move(operands));
}

double flops(const Node& node, const std::vector<TensorType>&, const std::vector<TensorType>& outputs) {
  return static_cast<double>(element_count(outputs.front().shape)) * static_cast<double>(node.body.size());
}

void check_step(const Node& node, size_t index, size_t operands) {
  const Node& step = node.body[index];
  const OpDef* def = find_op(step.op);
  if (!def || def->family != KernelFamily::Elementwise || !def->eval)
    fail(ErrorCode::InvalidGraph, node.op, "step ", index, " of the body is '", step.op,
         "', expected an elementwise op");
  if (!step.body.empty() || !step.outputs.empty())
    fail(ErrorCode::InvalidGraph, node.op, "step ", index, " (", step.op, ") has a body or outputs of its own");
  for (ValueId id : step.inputs)
    if (id >= operands + index)
      fail(ErrorCode::InvalidGraph, node.op, "step ", index, " (", step.op, ") reads $", id, ", but only $0 to $",
           operands + index - 1, " exist before it");
}

// The WGSL type of a step's result: cast and affine_clamp change it, the others keep that of their operands.
std::string step_type(const Node& step, const std::string& type) {
  if (step.op == "affine_clamp") return with_scalar(type, "f32");
  if (step.op != "cast") return type;
  const DType to = dtype_from_string(step.attrs.text("to"));
  return with_scalar(type, is_float(to) ? "f32" : to == DType::I32 ? "i32" : "u32");
}

}  // namespace

size_t body_operands(const Node& node) { return node.op == kFused.name ? node.inputs.size() : 1; }

TensorType infer_body(const Node& node, const std::vector<TensorType>& operands) {
  if (node.body.size() > kMaxBodySteps)
    fail(ErrorCode::InvalidGraph, node.op, "the body has ", node.body.size(), " steps, at most ", kMaxBodySteps,
         " are possible");
  if (node.body.empty()) return operands.front();
  std::vector<TensorType> types = operands;
  for (size_t j = 0; j < node.body.size(); ++j) {
    check_step(node, j, operands.size());
    std::vector<TensorType> inputs;
    for (ValueId id : node.body[j].inputs) inputs.push_back(types[id]);
    types.push_back(op(node.body[j].op).infer(node.body[j], inputs).front());
  }
  return types.back();
}

double eval_body(const Node& node, const double* operands) {
  std::array<double, 2 * kMaxBodySteps> values{};
  const size_t count = body_operands(node);
  for (size_t i = 0; i < count; ++i) values[i] = operands[i];
  for (size_t j = 0; j < node.body.size(); ++j) {
    std::array<double, 2> args{};  // no elementwise op takes more
    for (size_t i = 0; i < node.body[j].inputs.size(); ++i) args[i] = values[node.body[j].inputs[i]];
    values[count + j] = op(node.body[j].op).eval(node.body[j].attrs, args.data());
  }
  return node.body.empty() ? operands[0] : values[count + node.body.size() - 1];
}

RefTensor reference_body(const Node& node, std::vector<RefTensor> values) {
  if (node.body.empty()) return std::move(values.front());
  values.reserve(values.size() + node.body.size());  // steps hold pointers into it
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
    elementwise_reference(step, inputs, result);
    values.push_back(std::move(result[0]));
  }
  return std::move(values.back());
}

bool body_keeps_zero(const Node& node) {
  const std::array<double, kMaxBodySteps> zeros{};
  return eval_body(node, zeros.data()) == 0;
}

BodyText body_wgsl(const Node& node, const std::vector<std::string>& operands, const std::string& type) {
  return body_wgsl(node, operands, std::vector<std::string>(operands.size(), type));
}

BodyText body_wgsl(const Node& node, const std::vector<std::string>& operands, const std::vector<std::string>& types) {
  std::vector<std::string> names = operands;
  std::vector<std::string> all_types = types;
  std::string statements;
  for (size_t j = 0; j < node.body.size(); ++j) {
    const Node& step = node.body[j];
    std::vector<std::string> args;
    for (ValueId id : step.inputs) args.push_back(names.at(id));
    const std::string type = all_types.at(step.inputs.front());
    names.push_back("step" + std::to_string(j));
    all_types.push_back(step_type(step, type));
    statements += "  let " + names.back() + " = " + op(step.op).wgsl(step.attrs, args, type) + ";\n";
  }
  const size_t last = node.body.empty() ? 0 : names.size() - 1;
  return {statements, names[last], all_types[last]};
}

const OpDef kFused = {
    .name = "fused",
    .family = KernelFamily::Elementwise,
    .infer = infer,
    .reference = reference,
    .flops = flops,
};

}  // namespace gyrus
