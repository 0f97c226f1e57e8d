#include "ops/elementwise.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>

#include "core/error.h"

namespace gyrus {
namespace {

const Elementwise& row_of(const Node& node) {
  const OpDef& def = op(node.op);
  if (!def.elementwise) fail(ErrorCode::InvalidGraph, node.op, "is no elementwise op");
  return *def.elementwise;
}

double row_number(const Elementwise& row, const RowAttr& attr, const Attrs& attrs) {
  const std::string op(row.name), name(attr.name);
  if (!attrs.has(name) && !std::isnan(attr.fallback)) return attr.fallback;
  if (attr.choices.empty()) {
    const double number = attrs.number(name);
    if (std::isfinite(number)) return number;
    fail(ErrorCode::InvalidGraph, op, name, " is ", number, ", expected a finite number");
  }
  const std::string& given = attrs.text(name);
  const auto found = std::find(attr.choices.begin(), attr.choices.end(), given);
  if (found != attr.choices.end()) return static_cast<double>(found - attr.choices.begin());
  std::string known;
  for (const std::string_view choice : attr.choices) known += cat(known.empty() ? "'" : ", '", choice, "'");
  fail(ErrorCode::InvalidGraph, op, name, " is '", given, "', expected one of ", known);
}

void check_domain(const Node& node, Domain domain, DType dtype) {
  if (domain == Domain::All || (is_float(dtype) && domain != Domain::Integers && domain != Domain::Truth)) return;
  if (domain == Domain::Signed && (dtype == DType::I32 || dtype == DType::I64)) return;
  if (domain == Domain::Numbers && dtype != DType::U8 && dtype != DType::Bool) return;
  const bool truth = dtype == DType::Bool || dtype == DType::U8;
  if (domain == Domain::Truth && truth) return;
  if (domain == Domain::Integers && !is_float(dtype) && !truth) return;
  const char* expected = domain == Domain::Floats     ? "f32 or f16"
                         : domain == Domain::Signed   ? "f32, f16 or i32"
                         : domain == Domain::Truth    ? "bool"
                         : domain == Domain::Integers ? "i32 or u32"
                                                      : "f32, f16, i32 or u32";
  fail(ErrorCode::Unsupported, node.op, "an input is ", to_string(dtype), ", expected ", expected,
       "; add a cast before it");
}

DType result_dtype(const Elementwise& row, const double* numbers, DType common) {
  switch (row.gives) {
    case Gives::Common: return common;
    case Gives::Single: return DType::F32;
    case Gives::Word: return DType::U32;
    case Gives::Truth: return DType::Bool;
    case Gives::Attribute: return static_cast<DType>(static_cast<int>(numbers[0]));
  }
  return common;
}

std::vector<TensorType> infer(const Node& node, const std::vector<TensorType>& inputs) {
  const Elementwise& row = row_of(node);
  std::vector<std::string_view> names;
  for (const RowAttr& attr : row.attrs) names.push_back(attr.name);
  check_node(node, inputs, row.arity, row.arity, names);
  const std::vector<double> numbers = row_numbers(row, node.attrs);
  if (row.check) row.check(node, numbers.data());
  if (row.chooses && inputs[0].dtype != DType::Bool && inputs[0].dtype != DType::U8)
    fail(ErrorCode::InvalidGraph, node.op, "chooses by ", to_string(inputs[0].dtype), ", expected bool; add a cast");
  if (row.indexed)
    for (size_t k = row.arity - 2; k < row.arity; ++k)
      if (inputs[k].dtype != DType::I32 || !inputs[k].shape.empty())
        fail(ErrorCode::InvalidGraph, node.op, "word ", k + 2 - row.arity, " of the key is ",
             to_string(inputs[k].dtype), to_string(inputs[k].shape), ", expected i32[]");
  const DType common =
      common_dtype(node, {inputs.begin() + (row.chooses ? 1 : 0), inputs.end() - (row.indexed ? 2 : 0)});
  check_domain(node, row.domain, common);
  Shape shape;
  for (size_t k = 0; k < inputs.size() - (row.indexed ? 2 : 0); ++k) shape = broadcast(node, shape, inputs[k].shape);
  return {{result_dtype(row, numbers.data(), common), shape, Layout::Plain}};
}

void reference(const Node& node, const std::vector<const RefTensor*>& inputs, std::vector<RefTensor>& outputs) {
  const Elementwise& row = row_of(node);
  const std::vector<double> numbers = row_numbers(row, node.attrs);
  RefTensor& out = outputs.front();
  std::vector<std::vector<int64_t>> strides;
  for (const RefTensor* input : inputs) strides.push_back(broadcast_strides(input->shape, out.shape));
  std::vector<double> args(inputs.size() + 1);
  size_t i = 0;
  walk(out.shape, strides, std::vector<int64_t>(inputs.size(), 0), [&](const std::vector<int64_t>& offsets) {
    for (size_t k = 0; k < inputs.size(); ++k) args[k] = inputs[k]->data[static_cast<size_t>(offsets[k])];
    args.back() = static_cast<double>(i);
    out.data[i++] = row.value(args.data(), numbers.data());
  });
}

// What "$name" in the WGSL of a row stands for.
std::string meaning(const Elementwise& row, const std::string& name, const std::vector<double>& numbers,
                    const std::vector<std::string>& args, WgslType type, const std::string& index) {
  if (name == "i" && !index.empty()) return index;
  if (name == "T") return to_string(type);
  if (name == "F") return to_string(with_scalar(type, Scalar::F32));
  if (name == "U") return to_string(with_scalar(type, Scalar::U32));
  if (name.size() == 1 && name[0] >= '0' && name[0] <= '9') return args.at(static_cast<size_t>(name[0] - '0'));
  for (size_t i = 0; i < row.attrs.size(); ++i) {
    const RowAttr& attr = row.attrs[i];
    if (attr.name != name) continue;
    return attr.choices.empty() ? wgsl_number(numbers[i]) : std::string(attr.choices[static_cast<size_t>(numbers[i])]);
  }
  fail(ErrorCode::InvalidGraph, std::string(row.name), "its WGSL names $", name, ", which it does not have");
}

// Takes those steps and operands into the node that its results need.
void keep_needed(Derivative& found, std::vector<Node> body, size_t given) {
  std::vector<bool> needed(given + body.size(), false);
  for (ValueId id : found.node.results) needed[id] = true;
  for (size_t i = body.size(); i-- > 0;)
    if (needed[given + i])
      for (ValueId id : body[i].inputs) needed[id] = true;
  std::vector<ValueId> renamed(needed.size(), kNoValue);
  ValueId next = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    renamed[i] = next++;
    if (i < given) found.operands.push_back(i);
  }
  for (size_t i = 0; i < body.size(); ++i) {
    if (!needed[given + i]) continue;
    for (ValueId& id : body[i].inputs) id = renamed[id];
    found.node.body.push_back(std::move(body[i]));
  }
  for (ValueId& id : found.node.results) id = renamed[id];
}

}  // namespace

std::vector<double> row_numbers(const Elementwise& row, const Attrs& attrs) {
  std::vector<double> numbers;
  for (const RowAttr& attr : row.attrs) numbers.push_back(row_number(row, attr, attrs));
  return numbers;
}

double evaluate(const Elementwise& row, const Attrs& attrs, const double* args) {
  std::vector<double> all(args, args + row.arity);
  all.push_back(0);
  return row.value(all.data(), row_numbers(row, attrs).data());
}

std::string row_wgsl(const Elementwise& row, const Attrs& attrs, const std::vector<std::string>& args, WgslType type,
                     const std::string& index) {
  const std::vector<double> numbers = row_numbers(row, attrs);
  if (row.wgsl_of) return row.wgsl_of(args.at(0), numbers.data(), type);
  std::string text;
  for (size_t at = 0; at < row.wgsl.size();) {
    const size_t dollar = std::min(row.wgsl.find('$', at), row.wgsl.size());
    text += row.wgsl.substr(at, dollar - at);
    if (dollar == row.wgsl.size()) break;
    at = std::min(row.wgsl.find_first_of(" ()*+-/,;$<>", dollar + 1), row.wgsl.size());
    text += meaning(row, std::string(row.wgsl.substr(dollar + 1, at - dollar - 1)), numbers, args, type, index);
  }
  return text;
}

WgslType row_type(const Elementwise& row, const Attrs& attrs, WgslType type) {
  if (row.gives == Gives::Common) return type;
  return with_scalar(type, scalar_of(result_dtype(row, row_numbers(row, attrs).data(), DType::F32)));
}

const std::vector<OpDef>& elementwise_ops() {
  static const std::vector<OpDef> ops = [] {
    std::vector<OpDef> made;
    for (const Elementwise& row : elementwise_rows())
      made.push_back({.name = row.name,
                      .infer = infer,
                      .reference = reference,
                      .elementwise = &row,
                      .only_trains = row.only_trains,
                      .layout = LayoutRule::Follows,
                      .in_place = InPlace::Any,
                      .dtype_attr = row.gives == Gives::Attribute ? row.attrs[0].name : std::string_view{},
                      .flops = element_flops});
    return made;
  }();
  return ops;
}

Derivative derivative_of(const Node& node, const std::vector<bool>& wanted) {
  const Elementwise& row = row_of(node);
  if (!row.derivative) fail(ErrorCode::Unsupported, node.op, "has no derivative");
  const std::vector<double> numbers = row_numbers(row, node.attrs);
  const size_t given = row.arity + 2;
  Steps steps(given);
  Chain chain{numbers.data(), {}, steps.operand(row.arity), steps.operand(row.arity + 1)};
  for (size_t i = 0; i < row.arity; ++i) chain.x.push_back(steps.operand(i));
  const std::vector<Term> terms = row.derivative(chain);
  Derivative found;
  found.node.op = "fused";
  found.results.assign(row.arity, Derivative::kNone);
  for (size_t k = 0; k < row.arity; ++k) {
    if (!wanted[k] || !terms[k].steps) continue;
    const bool passed = terms[k].id == chain.g.id;
    found.results[k] = passed ? Derivative::kPassed : found.node.results.size();
    if (!passed) found.node.results.push_back(terms[k].id);
  }
  keep_needed(found, std::move(steps).body(), given);
  return found;
}

std::string wgsl_number(double value) {
  // WGSL has no literal for infinities and refuses what does not fit an f32; 17 digits never round the largest up.
  const double finite = std::clamp(value, -static_cast<double>(FLT_MAX), static_cast<double>(FLT_MAX));
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", static_cast<double>(static_cast<float>(finite)));
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

}  // namespace gyrus
